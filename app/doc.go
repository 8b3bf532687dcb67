// Package app puts the bot together: settings, database, sandboxes, GitHub, intake and missions.
//
// It is the composition and nothing else. Data comes in at webhooks, is decided on in app/mission, worked on in sandbox,
// judged in checks, and leaves through promote. Nothing below imports this package.
package app
