// Package ops is what operators see of a running bot: health, metrics, traces, and the page of the queue, on an address of
// their own.
//
// The bot tells it what happens; the rest it reads from the database when somebody looks. It must not change anything,
// and nothing of the bot waits for it.
package ops
