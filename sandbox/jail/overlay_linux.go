package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// An overlay is mounted where only the tree sees it: by root in the mount namespace of the thread that starts bubblewrap (see
// stage), by an ordinary user in the stage (see executeStage).

// maxMountData is the longest list of options that mount(2) takes: a page, with the zero at its end.
const maxMountData = 4095

// check refuses paths that the option string of the mount would cut in pieces.
func (o *Overlay) check(upper string) error {
	if o == nil {
		return nil
	}
	for _, p := range append([]string{upper, o.Work}, o.Lower...) {
		if !filepath.IsAbs(p) || strings.ContainsAny(p, ":,\\\"\x00") {
			return fmt.Errorf("overlay: %q is not an absolute path without colon, comma, quote and backslash", p)
		}
	}
	if len(o.Lower) == 0 {
		return errors.New("overlay: no lower layer")
	}
	return nil
}

// options of the mount. Volatile: without it, the end of the mount waits for everything that is dirty on the whole file system
// (seen to take 7 s). Metacopy would leave files in the upper layer that have no content there.
func (o *Overlay) options(upper string, root bool) (string, error) {
	how := "userxattr,volatile"
	if root { // may rename directories of the lower layer, by marks that only root can write
		how = "redirect_dir=on,metacopy=off,index=off,volatile"
	}
	s := "lowerdir=" + strings.Join(o.Lower, ":") + ",upperdir=" + upper + ",workdir=" + o.Work + "," + how
	if len(s) > maxMountData {
		return "", fmt.Errorf("overlay: its paths are too long together: %d bytes", len(s))
	}
	return s, nil
}

// mount makes the overlay visible at a directory. What an earlier volatile mount has left in the work directory goes first:
// the kernel refuses to mount over it, as nobody could say after a power cut what is in the upper layer.
func (o *Overlay) mount(upper, at string, root bool) error {
	options, err := o.options(upper, root)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(o.Work, "work", "incompat")); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if err := unix.Mount("overlay", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount overlay: %w", err)
	}
	return nil
}

// mountHere mounts the overlays in the mount namespace of this thread, each over its own upper layer, as root, unless the thread
// has joined who has done so.
func mountHere(mounts []Mount) error {
	for _, m := range overlays(mounts) {
		var at unix.Statfs_t
		if err := unix.Statfs(m.Host, &at); err != nil {
			return fmt.Errorf("overlay: %w", err)
		}
		if at.Type == unix.OVERLAYFS_SUPER_MAGIC {
			continue
		}
		if err := m.Overlay.mount(m.Host, m.Host, true); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return nil
}

// overlays are the mounts that are one.
func overlays(mounts []Mount) []Mount {
	var out []Mount
	for _, m := range mounts {
		if m.Overlay != nil {
			out = append(out, m)
		}
	}
	return out
}
