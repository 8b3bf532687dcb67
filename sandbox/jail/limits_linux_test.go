package jail

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const mib = 1 << 20

// Each limit has to hold, and what it holds back has to work without the part that holds it.
func TestLimits(t *testing.T) {
	needJail(t)
	forks := `i=0; while [ $i -lt 60 ]; do sleep 2 & i=$((i+1)); done; echo ALL`
	memory := `for i in 1 2 3; do dd if=/dev/zero of=/dev/null bs=48M count=9000 2>/dev/null & p="$p $!"; done; sleep 1.5
for q in $p; do kill -0 $q || exit; done; echo ALL; kill $p`
	disk := `for i in 1 2 3 4 5 6; do head -c 4M /dev/zero >f$i && sync f$i; sleep 0.1; done; sleep 0.5; echo ALL`
	// Where no walk looks: in files that have no name any more, in a directory that its owner has closed, deeper than descriptors go.
	nameless := `for i in 1 2 3 4; do exec 3>f && rm f && head -c 4M /dev/zero >&3; sleep 100 3>&3 & sleep 0.1; done; sleep 1.5; echo ALL`
	closed := `mkdir c; for i in 1 2 3 4; do exec 3>c/f$i && chmod 0 c && head -c 4M /dev/zero >&3; chmod 700 c; done; chmod 0 c; sleep 1.5; echo ALL`
	deep := `d=$(printf 'd/%.0s' $(seq 900)); for i in 1 2 3; do mkdir -p $d && cd -P ./$d; done
for i in 1 2 3 4 5 6 7; do head -c 4M /dev/zero >f$i && sync f$i; done; sleep 1.5; echo ALL`
	files := `i=0; while [ $i -lt 400 ]; do : >f$i; i=$((i+1)); done; sleep 1.5; echo ALL`
	for _, c := range []struct {
		name, script string
		limits       Limits
		reason       Reason    // of the end, "" when the script itself has to cope
		holds        []without // parts left out which do not matter
		fails        without   // parts left out without which it does not hold
	}{
		{"processes", forks, Limits{Procs: 32}, "", []without{{}, {cgroup: true}, {rlimits: true}}, without{cgroup: true, rlimits: true}},
		{"memory", memory, Limits{Memory: 100 * mib}, "", []without{{}, {cgroup: true}}, without{cgroup: true, rlimits: true, watch: true}},
		{"disk", disk, Limits{Disk: 12 * mib}, TooMuchDisk, []without{{}}, without{watch: true}},
		{"disk by files without a name", nameless, Limits{Disk: 12 * mib}, TooMuchDisk, []without{{}}, without{watch: true}},
		{"disk in a closed directory", closed, Limits{Disk: 12 * mib}, TooMuchDisk, []without{{}}, without{watch: true}},
		{"disk in the deep", deep, Limits{Disk: 24 * mib, FileSize: 24 * mib}, TooMuchDisk, []without{{}}, without{watch: true}},
		{"one file", `head -c 8M /dev/zero >f && echo ALL`, Limits{FileSize: 4 * mib}, "", []without{{}, {watch: true}}, without{rlimits: true}},
		{"files", files, Limits{Files: 200}, TooManyFiles, []without{{}}, without{watch: true}},
		{"tmp", `head -c 8M /dev/zero >/tmp/f && echo ALL`, Limits{Tmp: 4 * mib}, "", []without{{}}, without{}},
		{"shared memory", `head -c 100M /dev/zero >/dev/shm/f && echo ALL`, Limits{}, "", []without{{}}, without{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, w := range c.holds {
				if c.name == "processes" && w.rlimits && os.Geteuid() != 0 {
					continue // an ordinary user may have no control group
				}
				o := try(t, w, Spec{Workspace: reopened(t), Limits: c.limits}, c.script)
				if o.says("ALL") || c.reason != "" && o.Reason != c.reason {
					t.Errorf("without %+v: ended with %s, %d, %v:\n%s", w, o.Reason, o.Code, o.Observations, o.out)
				}
			}
			if c.fails == (without{}) {
				return // the size is an argument of the mount: there is no part to leave out
			}
			if o := try(t, c.fails, Spec{Workspace: reopened(t), Limits: c.limits}, c.script); !o.says("ALL") {
				t.Errorf("control: it held without %+v: ended with %s, %d:\n%s", c.fails, o.Reason, o.Code, o.out)
			}
		})
	}
}

// reopened is a workspace that can be removed although a directory c in it was closed.
func reopened(t *testing.T) string {
	dir := workspace(t)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "c"), 0o700) })
	return dir
}

func TestLimitOfTime(t *testing.T) {
	needJail(t)
	t.Parallel()
	o := try(t, without{}, Spec{Limits: Limits{Wall: 300 * time.Millisecond}}, "trap '' TERM; sleep 20; echo ALL")
	if o.Reason != TimedOut || o.Code != -1 || o.says("ALL") {
		t.Errorf("ended with %s, %d: %s", o.Reason, o.Code, o.out)
	}
}

func TestLimitOfOutput(t *testing.T) {
	needJail(t)
	t.Parallel()
	o := try(t, without{}, Spec{Limits: Limits{Output: mib}}, "yes 2>&1 & yes >&2; sleep 20")
	if o.Reason != TooMuchOutput || !o.Truncated || len(o.out) != mib || o.OutputBytes < mib {
		t.Errorf("ended with %s after %d bytes, %d passed on", o.Reason, o.OutputBytes, len(o.out))
	}
}

// What an earlier command wrote counts: a limit of the workspace is not one of each command. But somebody has to be able to clean up.
func TestDiskCountsFromWhenItWasMade(t *testing.T) {
	needJail(t)
	t.Parallel()
	dir := workspace(t)
	used, err := Measure(dir)
	if err != nil {
		t.Fatal(err)
	}
	used.Files++ // so that it is not zero
	// Long enough for a walk of its own: what others free meanwhile hides from the watcher that the file system got fuller.
	s := Spec{Workspace: dir, Used: &used, Limits: Limits{Disk: 12 * mib}}
	if o := try(t, without{}, s, `for i in 1 2 3; do head -c 4M /dev/zero >f$i && sync f$i; sleep 0.2; done; sleep 20`); o.Reason != TooMuchDisk {
		t.Fatalf("the first command ended with %s", o.Reason)
	}
	if o := try(t, without{}, s, `head -c 4M /dev/zero >more && sync more; sleep 20`); o.Reason != TooMuchDisk {
		t.Errorf("a full workspace could be filled on: %s", o.Reason)
	}
	if o := try(t, without{}, s, `rm -f *; echo x >small; sleep 0.3`); o.Reason != Exited || o.Code != 0 {
		t.Errorf("a full workspace could not be cleaned up: %s, %s", o.Reason, o.out)
	}
}

// A directory that its owner has closed is opened to be counted, and closed again.
func TestMeasureOfClosedDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.MkdirAll(filepath.Join(closed, "in", "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Join(closed, "in"), closed} {
		if err := os.Chmod(d, 0); err != nil {
			t.Fatal(err)
		}
	}
	u, missed, err := measure(true, []string{dir})
	if err != nil || u.Files != 3 || missed != (os.Geteuid() != 0) {
		t.Errorf("measure = %+v, %v, %v; want 3 files", u, missed, err)
	}
	if info, err := os.Stat(closed); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("the directory was left with %v, %v", info.Mode(), err)
	}
	if u, err := Measure(dir); err != nil || os.Geteuid() != 0 && u.Files != 1 {
		t.Errorf("Measure = %+v, %v; want what is seen without opening anything", u, err)
	}
	if err := os.Chmod(closed, 0o700); err != nil { // for the end of the test
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(closed, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A directory that was moved has another way up, which is not gone.
func TestMeasureOfMovedDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inner := filepath.Join(dir, "a", "b", "c")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	var w walk
	w.buf = make([]byte, 1<<12)
	above, below := level{fd: -1}, level{}
	for path, l := range map[string]*level{filepath.Dir(inner): &above, inner: &below} {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		l.fd = int(f.Fd())
		if err := w.read(l); err != nil {
			t.Fatal(err)
		}
	}
	above.fd = -1
	stack := []level{above, below}
	if err := back(stack); err != nil || stack[0].fd < 0 {
		t.Fatalf("the way back: %v", err)
	}
	stack[0].close()
	if err := os.Rename(inner, filepath.Join(dir, "c")); err != nil {
		t.Fatal(err)
	}
	if err := back(stack); !errors.Is(err, errMoved) || stack[0].fd >= 0 {
		t.Errorf("the way back from a directory that was moved: %v, descriptor %d", err, stack[0].fd)
	}
}

func TestMeasure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink("/usr", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "odd\n\xff"), make([]byte, 3*mib), 0o600); err != nil {
		t.Fatal(err)
	}
	sparse := filepath.Join(dir, "sparse")
	if err := os.WriteFile(sparse, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(sparse, 1<<40); err != nil {
		t.Skipf("no sparse files here: %v", err)
	}
	// Deeper than any path can be long, and than the walk holds descriptors for.
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	const deep = maxOpen + 300
	for range deep {
		name := strings.Repeat("d", 30)
		if err := root.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := root.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		root.Close()
		root = next
	}
	root.Close()
	got, err := Measure(dir, filepath.Join(dir, "missing"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(3+deep, got.Files); diff != "" {
		t.Errorf("files: (-want +got)\n%s", diff)
	}
	if got.Bytes < 3*mib || got.Bytes > 3*mib+(deep+10)*(16<<10) {
		t.Errorf("%d bytes: the sparse file and what the link leads to take nothing", got.Bytes)
	}
}
