package setup

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/jail"
)

// boundary tries what confines a sandbox: each part is attacked, and must hold.
func boundary(ctx context.Context) []Check {
	report, err := jail.Check(ctx)
	var checks []Check
	for _, item := range report.Items {
		check := Check{"sandbox " + item.Name, OK, item.Detail + " (" + item.How + ")", ""}
		if !item.OK {
			check.Status, check.Fix = Fail, "do not run agents on this machine before this holds"
		}
		checks = append(checks, check)
	}
	if err != nil {
		checks = append(checks, Check{"sandbox", Fail, err.Error(), obstacle(err, readSysctl)})
	}
	return checks
}

// obstacle guesses from what was said, and from the machine, why nothing can be confined, and says what to do.
func obstacle(said error, sysctl func(name string) string) string {
	if _, err := exec.LookPath("bwrap"); err != nil {
		return "install bubblewrap: apt-get install bubblewrap"
	}
	switch {
	case os.Geteuid() != 0 && sysctl("kernel/unprivileged_userns_clone") == "0":
		return "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1"
	// Ubuntu since 23.10: https://ubuntu.com/blog/ubuntu-23-10-restricted-unprivileged-user-namespaces
	case os.Geteuid() != 0 && sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "allow bwrap user namespaces by an AppArmor profile with userns, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case sysctl("user/max_user_namespaces") == "0":
		return "allow user namespaces: sysctl -w user.max_user_namespaces=15000"
	// bubblewrap's words for ENOSPC, which is also what a container gets whose own namespace forbids more.
	case strings.Contains(said.Error(), "namespaces exceeded"):
		return "allow more user namespaces: sysctl -w user.max_user_namespaces=15000; in a container, let it make them or run the bot on the host"
	}
	return "in a container: let it make user namespaces and mounts, or run the bot on the host"
}

func readSysctl(name string) string {
	data, _ := os.ReadFile("/proc/sys/" + name)
	return strings.TrimSpace(string(data))
}
