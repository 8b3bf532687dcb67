// Package container provides sandboxes by an OCI runtime: a container for each command, from a bundle that is written here.
//
// It is for tasks by people from outside. Against the jail of the other backends it adds a kernel that says no to all system
// calls but those that are listed, and it takes away what runs share: a container has its own user namespace in which the
// files of the host belong to nobody, the objects of its base only, control groups without which it is not started, and a root file
// system which is an image, or the programs of this machine. What a runtime such as gVisor or Kata puts between the
// container and the kernel comes on top.
//
// How strong all this is on a machine is for the probes to find out. The package must not keep states or records.
package container

import (
	"context"
	"os"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// Options of New: those of the worktree backend, whose workspaces these are, and of the runtime.
type Options struct {
	worktree.Options
	// Runtime is the program that runs containers, by name or path; empty: runc. It has to understand runc's command line.
	Runtime string
	// Image is what the root file system is, which is not written to: a directory, a tarball of one, or the name of an image that
	// podman or docker has. Empty: the programs of this machine, read-only.
	Image string
	Cache string // where tarballs and images are unpacked
}

// Backend is the container backend.
type Backend struct {
	*worktree.Backend
	runtime *runtime
}

var (
	_ sandbox.Backend = Backend{}
	_ sandbox.Differ  = Backend{}
	_ sandbox.Quieter = Backend{}
)

// New makes the backend.
func New(o Options) Backend {
	if o.Runtime == "" {
		o.Runtime = "runc"
	}
	r := &runtime{program: o.Runtime, image: image{o.Image, o.Cache}}
	o.Options.Name, o.Options.OwnObjects = "container", true
	o.Options.Confine = func(ctx context.Context, s jail.Spec, std jail.Stdio) (jail.Result, error) {
		s.Runtime = r
		return jail.Run(ctx, s, std)
	}
	return Backend{worktree.New(o.Options), r}
}

// Make makes the workspace, where a container can be run at all: a sandbox in which nothing can be done is of no use.
func (b Backend) Make(ctx context.Context, w sandbox.Workspace) error {
	if os.Geteuid() != 0 {
		return &sandbox.ErrUnavailable{Backend: b.Name(), Reason: "a container needs root here: an ordinary user has no control groups to hold it by"}
	}
	if err := b.runtime.check(ctx); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		return &sandbox.ErrUnavailable{Backend: b.Name(), Reason: err.Error()}
	}
	if err := b.runtime.image.prepare(ctx); err != nil {
		return err
	}
	return b.Backend.Make(ctx, w)
}
