package overlay

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
	"github.com/sandpiper-bot/sandpiper/sandbox/local"
)

// copyInside is where the copy is made, as the jail sees it. A command may have closed a file to its own user: what could not be
// copied is listed in notCopied.
const (
	copyInside = "/run/sandpiper/files"
	notCopied  = ".sandpiper-not-copied"
	copyScript = "to=" + copyInside + "; cp -a . $to 2>/tmp/said || cp /tmp/said $to/" + notCopied + "; chmod -R a-w $to 2>/dev/null || :"
)

// Materialise copies the files to where Path says. A command in the jail does it, which sees the layers as one: only the kernel
// knows how, and nothing in the files can do more than it could to a command of the run.
func (b *Backend) Materialise(ctx context.Context, w sandbox.Workspace) error {
	fresh := filepath.Join(w.Dir, copying)
	if err := local.Remove(w, copying); err != nil {
		return err
	}
	if err := os.Mkdir(fresh, 0o755); err != nil {
		return err
	}
	if err := give(fresh, b.o.UID); err != nil {
		return err
	}
	p, err := b.place(w)
	if err != nil {
		return err
	}
	p.Mounts = append(p.Mounts, jail.Mount{Host: fresh, Inside: copyInside, Writable: true})
	p.Used = nil
	w.Limits = sandbox.Limits{Disk: 1 << 40, Files: 1 << 30} // those of the run hold for what commands add
	var out bytes.Buffer
	exit, _, err := local.Launch(ctx, w, p, sandbox.Command{Argv: []string{"sh", "-euc", copyScript}}, sandbox.Stdio{Out: &out, Err: &out})
	if err != nil {
		return err
	}
	if !exit.OK() {
		return fmt.Errorf("cp ended with %s, status %d: %.2000q", exit.Reason, exit.Code, out.String())
	}
	if err := local.Remove(w, copied); err != nil {
		return err
	}
	return os.Rename(fresh, b.Path(w))
}
