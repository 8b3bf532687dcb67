package jail

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// layered is a workspace over a lower layer with a few files.
func layered(tb testing.TB) (s Spec, lower, upper string) {
	tb.Helper()
	closed := tb.TempDir()
	for _, d := range []string{"lower", "lower/dir", "lower/dir/sub", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(closed, d), 0o755); err != nil {
			tb.Fatal(err)
		}
		give(tb, filepath.Join(closed, d))
	}
	for _, f := range []string{"lower/a", "lower/dir/b", "lower/dir/sub/c"} {
		if err := os.WriteFile(filepath.Join(closed, f), []byte(f+"\n"), 0o644); err != nil {
			tb.Fatal(err)
		}
		give(tb, filepath.Join(closed, f))
	}
	if err := os.Chmod(closed, 0o700); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { // the kernel makes them with mode 000
		for _, dir := range []string{"work/work", "work/work/incompat", "work/work/incompat/volatile"} {
			_ = os.Chmod(filepath.Join(closed, dir), 0o700)
		}
	})
	lower, upper = filepath.Join(closed, "lower"), filepath.Join(closed, "upper")
	return Spec{Name: "layered", Dir: WorkspaceDir, Used: &Usage{}, Mounts: []Mount{{Host: upper, Inside: WorkspaceDir, Writable: true,
		Overlay: &Overlay{Lower: []string{lower}, Work: filepath.Join(closed, "work")}}}}, lower, upper
}

// inLayers runs a script there. Where overlays cannot be mounted at all the test is skipped.
func inLayers(tb testing.TB, s Spec, script string) (string, Result) {
	tb.Helper()
	var out bytes.Buffer
	s.Argv = []string{"sh", "-c", script}
	res, err := Run(tb.Context(), s, Stdio{Out: &out, Err: &out})
	if err != nil && strings.Contains(err.Error(), "overlay") {
		tb.Skipf("no overlays on this machine: %v", err)
	}
	if err != nil {
		tb.Fatalf("%v\n%s", err, out.String())
	}
	return out.String(), res
}

func TestOverlay(t *testing.T) {
	t.Parallel()
	needJail(t)
	s, lower, upper := layered(t)
	out, res := inLayers(t, s, `cat a dir/b; echo new >n; echo more >>a; rm dir/b; rm -r dir/sub; mkdir dir/sub; id -u; grep -c . /proc/self/mountinfo >/dev/null
		grep CapEff /proc/self/status; mknod x c 0 0 2>/dev/null && echo WHITEOUT; setfattr -n user.overlay.opaque -v y dir 2>/dev/null; ls -A`)
	if res.Reason != Exited || res.Code != 0 {
		t.Fatalf("ended with %+v\n%s", res, out)
	}
	if !strings.HasPrefix(out, "lower/a\nlower/dir/b\n") || strings.Contains(out, "WHITEOUT") || !strings.Contains(out, "CapEff:\t0000000000000000") {
		t.Errorf("inside: %s", out)
	}
	if got, err := os.ReadFile(filepath.Join(lower, "a")); err != nil || string(got) != "lower/a\n" {
		t.Errorf("the lower layer holds %q (%v)", got, err)
	}
	if got, err := os.ReadFile(filepath.Join(upper, "a")); err != nil || string(got) != "lower/a\nmore\n" {
		t.Errorf("the upper layer holds %q (%v)", got, err)
	}
	// Again: the work directory was used before.
	if out, _ := inLayers(t, s, "cat a n; ls dir dir/sub"); out != "lower/a\nmore\nnew\ndir:\nsub\n\ndir/sub:\n" {
		t.Errorf("the second time: %q", out)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(mounts), upper) {
		t.Errorf("a mount is left (%v)", err)
	}
}

func TestOverlayLimits(t *testing.T) {
	t.Parallel()
	needJail(t)
	s, _, _ := layered(t)
	s.Limits = Limits{Disk: 16 << 20, Files: 2000}
	if _, res := inLayers(t, s, "head -c 60M /dev/zero >big; sleep 20"); res.Reason != TooMuchDisk && res.Code == 0 {
		t.Errorf("60 MB under a limit of 16: %+v", res)
	}
	s, _, _ = layered(t)
	s.Limits = Limits{Disk: 16 << 20}
	if _, res := inLayers(t, s, "for i in 1 2 3 4 5 6; do head -c 6M /dev/zero >f$i; done; sleep 20"); res.Reason != TooMuchDisk {
		t.Errorf("36 MB in files under a limit of 16: %+v", res)
	}
}

// TestOverlayRename shows what becomes of a directory of the lower layer that is renamed: root marks it, others get EXDEV.
func TestOverlayRename(t *testing.T) {
	t.Parallel()
	needJail(t)
	s, _, _ := layered(t)
	out, _ := inLayers(t, s, `perl -e 'rename("dir", "moved") or die "$!\n"' 2>&1; mv dir moved 2>/dev/null; ls; cat moved/sub/c`)
	want := "a\nmoved\nlower/dir/sub/c\n"
	if os.Geteuid() != 0 {
		want = "Invalid cross-device link\n" + want
	}
	if out != want {
		t.Errorf("rename of a directory: %q, want %q", out, want)
	}
}

func TestOverlayRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Overlay{"no lower layer": {Work: "/w"}, "a colon": {Lower: []string{"/a:b"}, Work: "/w"},
		"a comma": {Lower: []string{"/a"}, Work: "/w,upperdir=/etc"}, "relative": {Lower: []string{"a"}, Work: "/w"}} {
		s := Spec{Argv: []string{"true"}, Mounts: []Mount{{Host: "/tmp", Inside: "/x", Overlay: &o}}}
		if _, err := Run(t.Context(), s, Stdio{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestOverlayJoined: a command that begins while another runs sees what that one writes, and the other way round.
func TestOverlayJoined(t *testing.T) {
	t.Parallel()
	needJail(t)
	s, lower, upper := layered(t)
	out := make(chan string, 1)
	go func() {
		text, _ := inLayers(t, s, "until [ -s two ]; do sleep 0.02; done; cat two a; echo one >one; until ! [ -e a ]; do sleep 0.02; done; echo end")
		out <- text
	}()
	for range 500 {
		if text, err := os.ReadFile(filepath.Join(lower, "..", "work", "holders")); err == nil && len(text) > 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	second, _ := inLayers(t, s, "echo 2 >two; until [ -s one ]; do sleep 0.02; done; cat one; grep CapEff /proc/self/status; rm a")
	if want := "one\nCapEff:\t0000000000000000\n"; second != want {
		t.Errorf("the second: %q, want %q", second, want)
	}
	if first, want := <-out, "2\nlower/a\nend\n"; first != want {
		t.Errorf("the first: %q, want %q", first, want)
	}
	if third, _ := inLayers(t, s, "ls"); third != "dir\none\ntwo\n" {
		t.Errorf("the third, after both: %q", third)
	}
	if _, err := os.Stat(filepath.Join(upper, "two")); err != nil {
		t.Error(err)
	}
}
