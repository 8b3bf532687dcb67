// Package webhooks takes in what GitHub tells us: it verifies a delivery, has it stored, acknowledges it, and decodes it
// into typed commands.
//
// Handler answers 202 only after Log.Put has made the delivery durable, because GitHub never sends one again by itself,
// and does nothing else before it answers, because GitHub gives up after ten seconds. Decode turns a stored delivery
// into commands; they are data and hints: whoever acts on one reads the present state from GitHub first.
//
// The package must not act on a command, call GitHub, or read a body before its signature has been verified. It leaves
// to the server that mounts the Handler what a connection may cost: ReadHeaderTimeout and ReadTimeout must be set there,
// or a sender that dribbles bytes holds a connection and up to MaxBody of memory for as long as it likes.
package webhooks
