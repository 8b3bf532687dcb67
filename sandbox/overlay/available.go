package overlay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/removal"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// verdict is what a try has shown, kept beside the bases for as long as nothing that it depends on changes.
type verdict struct {
	For    string `json:"for"` // kernel, boot, user, file system
	Reason string `json:"reason,omitempty"`
}

// Available finds out by doing whether commands can run on an overlay below the state directory, and says why not. What was found
// holds until the kernel is started again: a second call reads one file.
func (b *Backend) Available(ctx context.Context) error {
	dir := filepath.Join(b.o.StateDir, "bases")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	v, file := verdict{}, filepath.Join(dir, "overlay.json")
	about := circumstances(dir)
	if err := durable.ReadJSON(file, &v); err != nil || v.For != about {
		v = verdict{For: about}
		err := try(ctx, dir, b.o.UID)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			v.Reason = err.Error()
		}
		if err := durable.WriteJSON(file, v); err != nil {
			return err
		}
	}
	if v.Reason != "" {
		return &sandbox.ErrUnavailable{Backend: b.Name(), Reason: v.Reason}
	}
	return nil
}

// The ways to mount overlays that Check tells of.
const (
	ByRoot = "mounted by root: directories of the base can be renamed"
	ByUser = "mounted in a user namespace: a directory of the base is renamed by copying it (mv), which git mv does not do"
)

// Check tries whether commands can run on an overlay below a directory that exists, and says in which way (ByRoot, ByUser) or,
// by *sandbox.ErrUnavailable, why not. Nothing of the try stays.
func Check(ctx context.Context, dir string) (string, error) {
	way, uid := ByUser, 0
	if os.Geteuid() == 0 {
		way, uid = ByRoot, jail.DefaultUID
	}
	err := try(ctx, dir, uid)
	if err != nil && ctx.Err() == nil {
		err = &sandbox.ErrUnavailable{Backend: "overlay", Reason: err.Error()}
	}
	return way, err
}

// circumstances are what an answer depends on.
func circumstances(dir string) string {
	var name unix.Utsname
	var at unix.Statfs_t
	_ = unix.Uname(&name)
	_ = unix.Statfs(dir, &at)
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return fmt.Sprintf("%s %.36s user %d file system %x %x", unix.ByteSliceToString(name.Release[:]), boot, os.Geteuid(), at.Type, at.Fsid.Val)
}

// try runs a command over a lower layer that reads, writes, removes and replaces, and looks at what comes of it.
func try(ctx context.Context, parent string, uid int) (err error) {
	dir, err := os.MkdirTemp(parent, "try-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removal.All(dir)) }()
	for _, d := range []string{"lower", "lower/dir", upper, work} {
		path := filepath.Join(dir, d)
		if err := errors.Join(os.Mkdir(path, 0o755), give(path, uid)); err != nil {
			return err
		}
	}
	for _, f := range []string{"lower/a", "lower/b", "lower/dir/c"} {
		path := filepath.Join(dir, f)
		if err := errors.Join(os.WriteFile(path, []byte("content\n"), 0o644), give(path, uid)); err != nil {
			return err
		}
	}
	res, err := jail.Run(ctx, jail.Spec{
		Name: "try", Dir: jail.WorkspaceDir, UID: uid, Limits: jail.Limits{Wall: 20 * time.Second},
		Argv: []string{"sh", "-euc", "grep -q content a; echo more >>a; rm b; rm -r dir; mkdir dir; echo new >dir/new"},
		Mounts: []jail.Mount{{Host: filepath.Join(dir, upper), Inside: jail.WorkspaceDir, Writable: true,
			Overlay: &jail.Overlay{Lower: []string{filepath.Join(dir, "lower")}, Work: filepath.Join(dir, work)}}},
	}, jail.Stdio{})
	if err != nil {
		return err
	}
	if res.Reason != jail.Exited || res.Code != 0 {
		return fmt.Errorf("a command on an overlay ended with %s, status %d", res.Reason, res.Code)
	}
	if got, err := os.ReadFile(filepath.Join(dir, upper, "a")); err != nil || string(got) != "content\nmore\n" {
		return fmt.Errorf("the upper layer of an overlay holds %q (%w)", got, err)
	}
	return nil
}

// give hands over what root has made.
func give(path string, uid int) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(path, uid, uid)
}
