package jail

import "github.com/sandpiper-bot/sandpiper/sandbox/internal/room"

// Reserve is how many bytes of a file system of a size commands leave free: what runs is ended there, and what begins
// below it can clean up, but add next to nothing; below half of it nothing begins.
func Reserve(size int64) int64 { return room.Reserve(size) }
