// Package sandpiper is a self-hosted GitHub App that lets coding agents work on issues without trusting them.
//
// A labelled issue becomes a mission: the bot makes a sandbox on the repository, lets a coding agent work in it, inspects
// what changed, runs the repository's own checks, and opens a pull request that a human reviews. The bot never approves
// and never merges, and the agent never holds a credential.
//
// This package holds the App manifest, app.yml, which set-up and start-up both read. It must hold nothing else.
package sandpiper

import _ "embed"

// AppManifest is app.yml: the App's name, permissions and events, each with its reason, in the form of
// https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest (as YAML).
//
//go:embed app.yml
var AppManifest []byte
