package jail

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/room"
)

// reserve is what a command leaves of a file system.
func reserve(fs unix.Statfs_t) Usage {
	return Usage{Reserve(int64(fs.Blocks) * fs.Bsize), int(min(room.Files, fs.Files/20))}
}

// free is what ordinary users can have (statfs(2): f_bavail), as one of whom the bot may run.
func free(fs unix.Statfs_t) Usage { return Usage{int64(fs.Bavail) * fs.Bsize, int(fs.Ffree)} }

// keeps is what a command that begins now leaves of file systems. One that finds less than the reserve may still run, to clean up
// for instance, but may add next to nothing, and nothing to what is down to half of the reserve.
func keeps(room []unix.Statfs_t) []Usage {
	out := make([]Usage, len(room))
	for i, fs := range room {
		all, now := reserve(fs), free(fs)
		out[i] = Usage{min(all.Bytes, max(all.Bytes/2, now.Bytes-1<<20)), min(all.Files, max(all.Files/2, now.Files-100))}
	}
	return out
}

// margin is by how much file systems may get fuller before one is down to what is kept of it. Where one is, low says so. A file
// system that says no size, or counts no files, as btrfs, is not judged by it.
func margin(room []unix.Statfs_t, keep []Usage) (left Usage, low string) {
	const what = "the machine's disk ran low, which is not the run's own limit: "
	left = Usage{math.MaxInt64, math.MaxInt}
	for i, fs := range room {
		all, now := reserve(fs), free(fs)
		if fs.Blocks > 0 {
			if left.Bytes = min(left.Bytes, now.Bytes-keep[i].Bytes); now.Bytes < keep[i].Bytes {
				low = fmt.Sprintf(what+"%d bytes are free where the workspace lies, and the bot keeps %d for itself", now.Bytes, all.Bytes)
			}
		}
		if fs.Files > 0 {
			if left.Files = min(left.Files, now.Files-keep[i].Files); now.Files < keep[i].Files {
				low = fmt.Sprintf(what+"%d more files can be made where the workspace lies, and the bot keeps %d for itself", now.Files, all.Files)
			}
		}
	}
	return left, low
}

// fullness is how full the file systems of directories are. One that cannot be asked has no size.
func fullness(dirs []string) []unix.Statfs_t {
	room := make([]unix.Statfs_t, len(dirs))
	for i, dir := range dirs {
		_ = unix.Statfs(dir, &room[i])
	}
	return room
}
