package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	gogit "github.com/go-git/go-git/v5"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/container"
	gitline "github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// scheme is a way to give each of several tasks a tree of its own, and to begin a command in it.
type scheme struct {
	name   string
	target string // what `make attacks` calls it
	tasks  int    // at once; 0: eight
	begin  func(task int) error
	end    func(task int) error
	places func(task int) string // what one task takes on the disk
}

// found is what was measured of a scheme.
type found struct {
	scheme
	costs  []float64 // seconds for each task, of each round
	beside []float64 // the same beside git worktree add
	bytes  int64
	err    error // why it does not work here
}

// schemes ranks ways to isolate eight tasks by what they cost and by what they stop.
func schemes(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("sandpiper-bench schemes", flag.ContinueOnError)
	dir := f.String("dir", "", "directory on the file system to measure (default: that of temporary files)")
	page := f.String("page", "", "page that the table is written into, such as docs/performance.md (default: none)")
	attacks := f.String("attacks", "", "output of `make attacks`, for the column of what a scheme stops")
	files := f.Int("files", 2000, "files of the repository")
	rounds := f.Int("rounds", 3, "rounds")
	if err := f.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp(*dir, "sandpiper-schemes-")
	if err != nil {
		return err
	}
	defer removeAll(work)
	stopped, err := readAttacks(*attacks)
	if err != nil {
		return err
	}
	commits, err := generate(ctx, filepath.Join(work, "repo.git"), *files, 0)
	if err != nil {
		return err
	}
	all, err := allSchemes(ctx, work, commits[0])
	if err != nil {
		return err
	}
	for range *rounds {
		for _, s := range all {
			if s.err == nil {
				s.measure()
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		for _, s := range all {
			if n := len(s.costs); s.err == nil {
				s.beside = append(s.beside, s.costs[n-1]/all[0].costs[n-1])
			}
		}
	}
	text := schemesPage(all, stopped, *files, *rounds)
	fmt.Println(text)
	if *page == "" {
		return nil
	}
	return writeSection(*page, "schemes", text)
}

// measure has all tasks begin at once.
func (s *found) measure() {
	n := s.tasks
	if n == 0 {
		n = 8
	}
	errs := make([]error, n)
	var tasks sync.WaitGroup
	start := time.Now()
	for i := range errs {
		tasks.Go(func() { errs[i] = s.begin(i) })
	}
	tasks.Wait()
	s.costs = append(s.costs, time.Since(start).Seconds()/float64(n))
	s.err = errors.Join(errs...)
	s.bytes = diskOf(s.places(n - 1))
	for i := range errs {
		s.err = errors.Join(s.err, s.end(i))
	}
}

// diskOf counts what files take; a file that has several names counts in parts.
func diskOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil {
			st := info.Sys().(*syscall.Stat_t)
			links := int64(st.Nlink)
			if d.IsDir() {
				links = 1
			}
			n += st.Blocks * 512 / max(links, 1)
		}
		return nil
	})
	return n
}

func allSchemes(ctx context.Context, work, commit string) ([]*found, error) {
	repo := filepath.Join(work, "repo.git")
	tree := func(task int) string { return filepath.Join(work, fmt.Sprint("tree", task)) }
	remove := func(task int) error { return os.RemoveAll(tree(task)) }
	plain := func(name string, begin func(task int) error) *found {
		return &found{scheme: scheme{name: name, target: "no sandbox", begin: begin, end: remove, places: tree}}
	}
	clone := func(options ...string) func(int) error {
		return func(task int) error {
			return git(ctx, "", append(append([]string{"clone", "-q", "-b", "main"}, options...), tree(task))...)
		}
	}
	bench := &bench{ctx: ctx, repo: repo, dir: work}
	trees := plain("git worktree add", func(task int) error { return bench.treeAgain(fmt.Sprint("tree", task), commit) })
	trees.end = func(task int) error { return bench.dropTree(fmt.Sprint("tree", task)) }
	shared := filepath.Join(work, "shared")
	if err := git(ctx, "", "clone", "-q", "-b", "main", repo, shared); err != nil {
		return nil, err
	}
	var lock sync.Mutex
	turns := plain("one clone and a lock: reset, clean", func(int) error {
		lock.Lock()
		defer lock.Unlock()
		return errors.Join(git(ctx, shared, "reset", "-q", "--hard", commit), git(ctx, shared, "clean", "-qfdx"))
	})
	turns.end, turns.places = func(int) error { return nil }, func(int) string { return filepath.Join(work, "nothing") }
	reflink := plain("cp --reflink of a checkout", func(task int) error {
		out, err := exec.CommandContext(ctx, "cp", "-a", "--reflink=always", shared, tree(task)).CombinedOutput()
		if bytes.Contains(out, []byte("not supported")) {
			return errors.New("not possible on this file system")
		}
		return err
	})
	library := plain("go-git, PlainClone", func(task int) error {
		_, err := gogit.PlainCloneContext(ctx, tree(task), false, &gogit.CloneOptions{URL: repo, ReferenceName: "refs/heads/main", SingleBranch: true})
		return err
	})
	library.tasks = 1
	all := []*found{trees, turns, plain("git clone --shared", clone("--shared", repo)), plain("git clone --local", clone("--local", repo)),
		plain("git clone of a URL", clone("file://"+repo)), reflink, library}
	ours, err := sandboxes(ctx, work, repo, commit)
	return append(all, ours...), err
}

// sandboxes are the backends. The time is that to a workspace in which a first command has run.
func sandboxes(ctx context.Context, work, repo, commit string) (all []*found, err error) {
	state := filepath.Join(work, "state")
	g, err := gitline.New(gitline.Options{})
	if err != nil {
		return nil, err
	}
	stores, err := gitstore.Open(filepath.Join(state, "stores"), g)
	if err != nil {
		return nil, err
	}
	if _, _, err := stores.FetchCommit(ctx, gitstore.Remote{Key: "bench", URL: repo}, "refs/heads/main"); err != nil {
		return nil, err
	}
	m, err := sandbox.Open(sandbox.Config{StateDir: state, Stores: stores, Backends: []sandbox.Backend{
		overlay.New(overlay.Options{StateDir: state, Stores: stores}), worktree.New(worktree.Options{Stores: stores}),
		container.New(container.Options{Options: worktree.Options{Stores: stores}})}})
	if err != nil {
		return nil, err
	}
	for backend, what := range map[string]string{"overlay": "a cached base, bubblewrap", "worktree": "a checkout, bubblewrap", "container": "a checkout with objects of its own, runc"} {
		ids := make([]sandbox.ID, 8)
		begin := func(task int) (err error) {
			ids[task], err = m.Create(ctx, "", sandbox.Source{Key: "bench", Base: commit}, sandbox.Options{Backend: backend})
			if err != nil {
				return err
			}
			exit, err := m.Run(ctx, ids[task], sandbox.Command{Argv: []string{"true"}}, sandbox.Stdio{})
			if err == nil && !exit.OK() {
				err = fmt.Errorf("a command ended with %s %d: %s", exit.Reason, exit.Code, exit.Message)
			}
			return err
		}
		end := func(task int) error {
			_, err := m.Discard(ctx, ids[task])
			return err
		}
		s := &found{scheme: scheme{name: "sandpiper, " + backend + ": " + what, target: backend, begin: begin, end: end,
			places: func(task int) string { return filepath.Join(state, "runs", string(ids[task])) }}}
		if s.err = begin(0); s.err == nil { // makes the base
			s.err = end(0)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *found) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// stops is what a target has stopped of all attacks.
type stops struct{ stopped, all int }

var attackLine = regexp.MustCompile(`^\s*--- (PASS|FAIL): TestBattery/([^/ ]+)/([^/ ]+) `)

// readAttacks counts the lines of go test. Without a sandbox a test passes when the attack has done its harm.
func readAttacks(file string) (map[string]stops, error) {
	out := map[string]stops{}
	if file == "" {
		return out, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		w := attackLine.FindStringSubmatch(lines.Text())
		if w == nil {
			continue
		}
		target := strings.ReplaceAll(w[2], "_", " ")
		s := out[target]
		s.all++
		if (w[1] == "PASS") == (target != "no sandbox") {
			s.stopped++
		}
		out[target] = s
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: no attack in it; it should be the output of make attacks", file)
	}
	return out, lines.Err()
}

func schemesPage(all []*found, stopped map[string]stops, files, rounds int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## Ways to give eight tasks a workspace each\n\nMeasured %s on %s.\n\n    make attacks >attacks.txt; go run ./cmd/sandpiper-bench schemes -files=%d -rounds=%d -attacks=attacks.txt\n\n",
		time.Now().UTC().Format(time.DateOnly), machine(), files, rounds)
	fmt.Fprintf(&b, "repeats it. Eight tasks begin at once on a repository of %d files; the time is that of one of them, until its tree is there and, in a\n"+
		"sandbox, a first command has run. Ranked by it; what of the attacks of `make attacks` a scheme stops ranks them another way.\n\n"+
		"| | scheme | a task | beside git worktree add | disk for a task | attacks stopped |\n| --- | --- | --- | --- | --- | --- |\n", files)
	slices.SortStableFunc(all, func(a, b *found) int {
		if (a.err == nil) != (b.err == nil) {
			return map[bool]int{true: -1, false: 1}[a.err == nil]
		}
		return int((median(a.beside) - median(b.beside)) * 1e6)
	})
	for i, s := range all {
		strength := "not tried"
		if n, ok := stopped[s.target]; ok {
			strength = fmt.Sprintf("%d of %d", n.stopped, n.all)
		}
		if s.err != nil {
			why, _, _ := strings.Cut(s.err.Error(), "\n")
			fmt.Fprintf(&b, "| – | %s | %.150s | | | %s |\n", s.name, why, strength)
			continue
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %.3f | %d KiB | %s |\n", i+1, s.name, ms(median(s.costs)), median(s.beside), s.bytes>>10, strength)
	}
	b.WriteString("\nOne clone and a lock costs little disk, one tree for all, but only one task works at a time: the eighth waits for the work of seven others. go-git ran one task alone.\n")
	return b.String()
}
