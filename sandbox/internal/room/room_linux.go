package room

import (
	"math"

	"golang.org/x/sys/unix"
)

// Spare is how many bytes may be written by the bot itself where a directory lies, when it records what a command left: half of
// the reserve is for that, and the other half for its database.
func Spare(dir string) int64 {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Blocks == 0 { // one that cannot be asked, or has no size, knows no bound
		return math.MaxInt64
	}
	size := int64(fs.Blocks) * fs.Bsize
	return max(int64(fs.Bavail)*fs.Bsize-Reserve(size)/2, 0)
}
