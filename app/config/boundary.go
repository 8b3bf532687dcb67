package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// Boundary are the settings of what holds sandboxes, beside their limits.
type Boundary struct {
	// Never a silent downgrade: without a backend that was proven to hold an adversary, a task by outsiders is refused.
	BackendOutsider string `env:"SANDPIPER_BACKEND_OUTSIDER" envDefault:"container" desc:"What provides sandboxes for text by people without write access. Its probes have to prove that it is strong enough."`
	Runtime         string `env:"SANDPIPER_RUNTIME" envDefault:"runc" desc:"Program that runs containers, by name or path. It has to take runc's command line."`
	Image           string `env:"SANDPIPER_IMAGE" desc:"Root file system of containers: a directory, a tarball of one, or an image that podman or docker has. Empty: the programs of this machine, read-only."`
	// An hour: a boundary comes loose with an update of the machine, not by the minute.
	ProbeEvery time.Duration `env:"SANDPIPER_PROBE_EVERY" envDefault:"1h" desc:"How often the probes try whether the boundary holds. While they do not pass, no new work is begun on that backend, and they are tried each minute."`
}

func (b *Boundary) validate(found *problems) {
	if b.Image != "" && (filepath.Clean(b.Image) == "/" || strings.HasPrefix(b.Image, ".") || strings.HasPrefix(b.Image, "-")) {
		found.add("SANDPIPER_IMAGE", fmt.Sprintf("%q is neither an absolute path below the root nor the name of an image", b.Image),
			"give the directory or the tarball of a root file system, or an image that podman or docker has")
	}
	if b.ProbeEvery < time.Minute {
		found.add("SANDPIPER_PROBE_EVERY", fmt.Sprintf("%s is less than a minute", b.ProbeEvery), "set it to 1m or more, such as 1h")
	}
}
