package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/app/setup"
)

// TestServeWithoutSettings ends with the status by which a service manager knows that starting it again would not help.
func TestServeWithoutSettings(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(program, "serve")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "SANDPIPER_WEBHOOK_SECRETS") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestDoctorCommand runs the doctor on machines that lack something. It says what, and what to do, in JSON too, and its exit
// status says whether anything failed.
func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	onlyGit := t.TempDir()
	must(t, os.Symlink(must1(exec.LookPath("git"))(t), filepath.Join(onlyGit, "git")))
	path := "PATH=" + os.Getenv("PATH")
	for name, c := range map[string]struct {
		command     []string
		env         []string
		check, says string
		status      setup.Status
	}{
		"no bubblewrap": {[]string{program}, []string{"PATH=" + onlyGit}, "sandbox", "apt-get install bubblewrap", setup.Fail},
		"no user namespaces": {[]string{"bwrap", "--unshare-user", "--disable-userns", "--uid", "1234", "--dev-bind", "/", "/", program}, []string{path},
			"sandbox", "user.max_user_namespaces", setup.Fail},
		"state on tmpfs":       {[]string{program}, []string{path, "SANDPIPER_STATE_DIR=/dev/shm/sandpiper-doctor"}, "state directory", "local disk", setup.Warn},
		"no policy":            {[]string{program}, []string{path, "SANDPIPER_POLICY_FILE=/nowhere"}, "SANDPIPER_POLICY_FILE", "policy check", setup.Fail},
		"half of the settings": {[]string{program}, []string{path, "SANDPIPER_APP_ID=7"}, "SANDPIPER_WEBHOOK_SECRETS", "openssl rand", setup.Fail},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			switch name {
			case "no user namespaces":
				if out, err := exec.Command("bwrap", "--unshare-user", "--disable-userns", "--uid", "1234", "--dev-bind", "/", "/", "true").CombinedOutput(); err != nil {
					t.Skipf("this bubblewrap cannot take them away: %s", out)
				}
			case "state on tmpfs":
				var fs unix.Statfs_t
				if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
					t.Skip("no tmpfs at /dev/shm")
				}
			}
			r, code := doctor(t, c.command, append([]string{"HOME=" + stateParent(t)}, c.env...))
			found := false
			for _, one := range r.Checks {
				if one.Name == c.check {
					found = true
					if one.Status != c.status || !strings.Contains(one.Fix, c.says) {
						t.Errorf("got %+v, want %s and %q", one, c.status, c.says)
					}
				}
				if one.Status == setup.Fail && one.Fix == "" {
					t.Errorf("it does not say what to do: %+v", one)
				}
			}
			if !found {
				t.Errorf("nothing is said of %s: %+v", c.check, r.Checks)
			}
			if want := map[bool]int{true: 0, false: 1}[r.OK()]; code != want {
				t.Errorf("exit status %d, want %d", code, want)
			}
		})
	}
	if _, err := exec.Command(program, "doctor", "me").CombinedOutput(); err == nil || err.(*exec.ExitError).ExitCode() != 2 {
		t.Errorf("with an argument: %v, want exit status 2", err)
	}
}

// doctor runs the doctor and gives its report and exit status.
func doctor(t *testing.T, command, env []string) (r setup.Report, code int) {
	t.Helper()
	cmd := exec.Command(command[0], append(command[1:], "doctor", "--json")...)
	cmd.Env = env
	out, err := cmd.Output()
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return r, code
}
