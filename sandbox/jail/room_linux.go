package jail

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// margin is by how much file systems may get fuller before one is down to its reserve. Where one is, low says so.
// Free is what is free to ordinary users (statfs(2): f_bavail), as whom the bot may run. A file system that says no size, or
// counts no files, as btrfs, is not judged by it.
func margin(room []unix.Statfs_t) (left Usage, low string) {
	left = Usage{math.MaxInt64, math.MaxInt}
	for _, fs := range room {
		if size := int64(fs.Blocks) * fs.Bsize; size > 0 {
			free := int64(fs.Bavail) * fs.Bsize
			if left.Bytes = min(left.Bytes, free-Reserve(size)); free < Reserve(size) {
				low = fmt.Sprintf("the machine's disk ran low, which is not the run's own limit: %d bytes are free where the workspace lies, of which the bot keeps %d for itself", free, Reserve(size))
			}
		}
		if fs.Files > 0 {
			reserve := min(reservedFiles, fs.Files/20)
			if left.Files = min(left.Files, int(fs.Ffree)-int(reserve)); fs.Ffree < reserve {
				low = fmt.Sprintf("the machine's disk ran low, which is not the run's own limit: %d more files can be made where the workspace lies, of which the bot keeps %d for itself", fs.Ffree, reserve)
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
