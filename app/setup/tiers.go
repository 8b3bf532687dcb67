package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

// backends are those that sandboxes can be provided by, as settings name them.
var backends = []string{"overlay", "worktree", "container"}

// tiers says how strong each backend is here, by its probes, and what follows for tasks by people from outside.
func (d *Doctor) tiers(ctx context.Context) []Check {
	if d.Probe == nil {
		return nil
	}
	var checks []Check
	proven := map[string]probe.Result{}
	for _, name := range backends {
		r := d.Probe(ctx, name)
		proven[name] = r
		checks = append(checks, tier(name, r))
	}
	outsider := d.Config.BackendOutsider
	check := Check{"tasks by outsiders", OK, "run by " + outsider, ""}
	if r := proven[outsider]; r.Tier != probe.Outsider {
		check.Status, check.Detail = Warn, fmt.Sprintf("are refused: %s is not of the tier outsider here", outsider)
		check.Fix = "run the bot as root with runc installed and SANDPIPER_BACKEND_OUTSIDER=container, or leave it: people with write access are served"
	}
	return append(checks, check)
}

func tier(name string, r probe.Result) Check {
	check := Check{Name: "backend " + name}
	switch {
	case r.Unavailable:
		why := r.Why()
		if _, short, ok := strings.Cut(why, " is not available here: "); ok { // as sandbox.ErrUnavailable says it
			why = short
		}
		check.Status, check.Detail = Skip, "not on this machine: "+why
	case !r.OK():
		check.Status, check.Detail = Fail, r.Why()
		check.Fix = fmt.Sprintf("it takes no work before this is mended; 'sandpiper probe --backend %s --verbose' shows what was seen", name)
	case r.Tier == probe.Outsider:
		check.Status, check.Detail = OK, "tier outsider: marker, connection, surface and limits hold"
	default:
		check.Status, check.Detail = OK, fmt.Sprintf("tier %s: %s", r.Tier, strings.Join(r.Lowered, "; "))
	}
	if r.OK() && len(r.Watched) > 0 {
		check.Status = Warn
		check.Fix = "the limit of " + strings.Join(r.Watched, " and ") + " is watched and can be outrun for a moment; " + delegation(os.Geteuid(), unified("/sys/fs/cgroup"))
	}
	return check
}

// delegation is how the bot comes to control groups of its own.
func delegation(uid int, unified bool) string {
	switch {
	case uid == 0:
		return "give the bot a control group that it may write, with the controllers memory and pids"
	case unified:
		return "run it by systemd with Delegate=yes, or as root, for a control group that holds it"
	}
	return "run it as root for a control group that holds it: those of version 1 are not given to other users"
}

// unified says whether the machine has control groups of version 2 alone, with controllers.
func unified(mount string) bool {
	controllers, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers"))
	return err == nil && slices.Contains(strings.Fields(string(controllers)), "memory")
}
