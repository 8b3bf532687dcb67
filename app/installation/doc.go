// Package installation is who the bot is at GitHub.
//
// It signs in as the App, mints installation tokens that reach one repository for one purpose, and gives out clients and
// git credentials that carry them. Every client goes through one chain of transports, outermost first: errors that have a
// class of their own (errors.go), redirects, limits, retries of reads, pacing of writes, the token to use, a cap on
// concurrency, conditional requests, the log, and the token itself, which travels to the API's host and to no other.
//
// A token is minted when it is first needed, is tried once before anybody gets it, is replaced ten minutes before it
// expires, and is revoked by Release. It is known to the redactor from the moment it is minted.
//
// The package must not decide what is done with a repository, must not put a token into an error, a log or a URL, and must
// not ask for more than the purpose at hand needs.
package installation
