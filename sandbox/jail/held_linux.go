package jail

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// held adds up the files that the tree has open, or executes, and that have no name any more: they take room until they are closed, and
// no walk comes by them. What is only mapped, or under way in a socket, is not seen: the Reserve of the disk bounds that.
func (w *watch) held() (u Usage) {
	type file struct{ dev, ino uint64 }
	seen := map[file]bool{}
	for _, pid := range w.processes() {
		open, _ := filepath.Glob("/proc/" + pid + "/fd/*")
		for _, path := range append(open, "/proc/"+pid+"/exe") {
			var st unix.Stat_t
			if unix.Stat(path, &st) != nil || st.Nlink > 0 || st.Mode&unix.S_IFMT != unix.S_IFREG {
				continue
			}
			id := file{uint64(st.Dev), st.Ino}
			var fs unix.Statfs_t
			if seen[id] || unix.Statfs(path, &fs) != nil || fs.Type == unix.TMPFS_MAGIC { // the size of which is limited, or memfd_create(2)
				continue
			}
			seen[id] = true
			u.Files++
			u.Bytes += st.Blocks * 512
		}
	}
	return u
}
