// Package review is the human gate: the Check Run `sandpiper / review` on the head of each pull request that the bot has opened.
//
// It is green only while enough people with write access, other than who asked for the work or wrote a commit of it, have approved
// exactly this head, nobody objects, an owner of each path has approved, and no other gate waits for a word. Everything is read anew
// from GitHub and git each time; an event is only the reason to look. The package must not approve or merge, has no code for either,
// and never takes the word of a webhook or of the change itself.
package review
