package collect

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestParseIndex reads what git writes, of each version.
func TestParseIndex(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2", "3", "4"} {
		dir := t.TempDir()
		git := func(args ...string) {
			t.Helper()
			cmd := exec.Command("git", args...)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1"}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("git %q: %v\n%s", args, err, out)
			}
		}
		git("init", "-q")
		want := &agentIndex{absent: map[string]bool{}, links: map[string]string{"sub": strings.Repeat("1", 40), "d1/sub": strings.Repeat("2", 40)}}
		for i := range 100 {
			p := fmt.Sprintf("d%d/%s%d", i%7, strings.Repeat("n", i*2), i)
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(p)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, p), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if version != "2" && i%5 == 0 {
				want.absent[p] = true
			}
		}
		git("add", "-A")
		for p, id := range want.links {
			git("update-index", "--add", "--cacheinfo", "160000,"+id+","+p)
		}
		for p := range want.absent {
			git("update-index", "--skip-worktree", p)
		}
		if version == "4" {
			git("update-index", "--index-version", version)
		}
		data, err := os.ReadFile(filepath.Join(dir, ".git/index"))
		if err != nil {
			t.Fatal(err)
		}
		if data[7] != version[0]-'0' {
			t.Fatalf("git has written version %d", data[7])
		}
		got, err := parseIndex(data)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(agentIndex{})); err != nil || diff != "" {
			t.Errorf("version %s: %v (-want +got):\n%s", version, err, diff)
		}
		for n := range len(data) / 2 {
			if _, err := parseIndex(data[:n]); !errors.Is(err, errIndex) {
				t.Fatalf("version %s, %d bytes of it: %v", version, n, err)
			}
		}
	}
}

// FuzzParseIndex: no index makes the package panic.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("x", 64) + "\x00a\x00"))
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + strings.Repeat("\x00", 64) + "aaaaaaaa\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := parseIndex(data)
		if err == nil {
			x.has("a/b")
		}
	})
}
