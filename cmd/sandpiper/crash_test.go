package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/fixtures/postgres"
)

// database is started by the first test that asks for one.
var database postgres.Server

// storm is missions, and bots that are killed while they work, whose database and whose GitHub go away.
type storm struct {
	t       *testing.T
	bots    []*world // they share the GitHub, and the database where it is PostgreSQL
	issues  []int
	rng     *rand.Rand
	outages []outage       // of the database; they come in turn
	blows   map[string]int // what was done, by name
	border  map[string]int // kills right after a step was recorded, by the step that was next
}

// stormSize reads a size of the long form (make crash) from the environment; short is what a test run has time for.
func stormSize(name string, short int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return short
}

// newStorm starts bots on a repository. An agent here takes its time, by chance.
func newStorm(t *testing.T, bots int, databaseURL string) *storm {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &storm{t: t, rng: rand.New(rand.NewPCG(seed, 0)), blows: map[string]int{}, border: map[string]int{}}
	first := newWorld(t, calc("sleep $(($(od -An -N1 -tu1 /dev/urandom) % 3))\n"+fixes))
	for i := range bots {
		w := first
		if i > 0 {
			another := *first
			w = &another
			w.dir = stateParent(t)
		}
		w.env = []string{"SANDPIPER_SWEEP_EVERY=1s", "SANDPIPER_WORKERS=6", "SANDPIPER_MISSIONS_PER_REPOSITORY=12", "SANDPIPER_OPS_LISTEN=127.0.0.1:0", "DATABASE_URL=" + databaseURL}
		w.start()
		s.bots = append(s.bots, w)
	}
	return s
}

// label opens issues and labels them, a few at a time, while bots come and go.
func (s *storm) label(missions int) {
	w := s.bots[0]
	var wg sync.WaitGroup
	for range missions {
		s.issues = append(s.issues, w.openIssue(fmt.Sprintf("Sum returns 0, case %d", len(s.issues)), ""))
	}
	for _, n := range s.issues[len(s.issues)-missions:] {
		wg.Go(func() { w.label("octavia", n) })
	}
	wg.Wait()
}

// atBorder kills a bot right after it has recorded a step.
func (s *storm) atBorder() {
	w := s.anyBot()
	s.awaitBorder(w)
	s.restart(w)
}

func (s *storm) anyBot() *world { return s.bots[s.rng.IntN(len(s.bots))] }

// upTo waits for some time, by chance.
func (s *storm) upTo(most time.Duration) {
	pause := time.NewTimer(time.Duration(s.rng.Int64N(int64(most))))
	<-pause.C
}

func (s *storm) restart(w *world) {
	s.blows["bot killed"]++
	w.bot.kill()
	w.start()
}

// atRandom does something bad at any moment: blow says what, in turn.
func (s *storm) atRandom(blow int) {
	s.upTo(900 * time.Millisecond)
	w := s.anyBot()
	switch blow % 4 {
	case 0:
		o := s.outages[s.blows["database away"]%len(s.outages)]
		s.blows["database away"]++
		o()
	case 1:
		s.blows["GitHub away"]++
		w.double.GoAway()
		s.upTo(2 * time.Second)
		w.double.ComeBack()
	case 2:
		s.blows["supervisor killed"]++
		killSupervisor(w.dir)
		s.restart(w)
	default:
		s.restart(w)
	}
}

// awaitBorder waits until the bot has recorded a step, and notes which one is next. A bot with nothing to do is not waited for.
func (s *storm) awaitBorder(w *world) {
	seen := len(w.bot.text())
	deadline := time.NewTimer(3 * time.Second)
	defer deadline.Stop()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		if text := w.bot.text()[seen:]; strings.Contains(text, `"msg":"step done"`) {
			_, after, _ := strings.Cut(text, `"next":"`)
			next, _, _ := strings.Cut(after, `"`)
			s.border[next]++
			return
		}
		select {
		case <-deadline.C:
			return
		case <-ticker.C:
		}
	}
}

// killSupervisor kills one of the supervisors whose state is in a directory, with -9.
func killSupervisor(dir string) {
	for _, line := range processesOf(dir) {
		if !strings.Contains(line, " supervise ") {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(line, "/")[2]); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
			return
		}
	}
}

// over says whether every mission has told its end.
func (s *storm) over() bool {
	w := s.bots[0]
	w.double.RefillQuotas() // hundreds of starts, and this looking for comments, are more calls than an hour has
	for _, n := range s.issues {
		if !slices.ContainsFunc(w.comments(n), ended) {
			return false
		}
	}
	return true
}

func ended(comment string) bool {
	return strings.Contains(comment, "**changed**") || strings.Contains(comment, "⛔ **") || strings.Contains(comment, "➖ **")
}

// judge holds every mission to one outcome: one comment with the end, one pull request where something changed, each Check
// Run once and completed, and nothing left on the machine.
func (s *storm) judge() {
	s.t.Helper()
	w := s.bots[0]
	w.until("every mission has ended", s.over)
	for _, b := range s.bots {
		b.until("the sandboxes are archived", func() bool { return len(b.runs()) == 0 })
		b.nothingLeft()
	}
	pulls := map[int][]*gh.PullRequest{}
	for page := 1; page > 0; {
		list, response, err := w.as("octavia").PullRequests.List(s.t.Context(), "acme", "calc", &gh.PullRequestListOptions{State: "all", ListOptions: gh.ListOptions{PerPage: 100, Page: page}})
		must(s.t, err)
		for _, pr := range list {
			for _, n := range s.issues {
				if strings.HasPrefix(pr.GetHead().GetRef(), fmt.Sprintf("sandpiper/%d-", n)) {
					pulls[n] = append(pulls[n], pr)
				}
			}
		}
		page = response.NextPage
	}
	outcomes := map[string]int{}
	for _, n := range s.issues {
		comments := w.comments(n)
		if len(comments) != 1 {
			s.t.Errorf("issue %d: %d comments, want one: %q", n, len(comments), comments)
			continue
		}
		changed := strings.Contains(comments[0], "**changed**")
		switch {
		case changed && len(pulls[n]) != 1, !changed && len(pulls[n]) != 0:
			s.t.Errorf("issue %d: %d pull requests, and it says %s", n, len(pulls[n]), comments[0])
		case changed:
			outcomes["changed"]++
			s.judgeChecks(pulls[n][0])
		case strings.Contains(comments[0], "supervisor is gone"):
			outcomes["lost"]++ // we killed it
		default:
			s.t.Errorf("issue %d says %s", n, comments[0])
		}
	}
	s.t.Logf("%d missions, %v, at the borders before %v: %v", len(s.issues), s.blows, s.border, outcomes)
}

func (s *storm) judgeChecks(pr *gh.PullRequest) {
	s.t.Helper()
	names := map[string]int{}
	for _, run := range s.bots[0].allRuns(pr.GetHead().GetSHA()) {
		names[run.GetName()]++
		if run.GetStatus() != "completed" && run.GetName() != "sandpiper / review" { // that one waits for people
			s.t.Errorf("pull request #%d: Check Run %s is %s", pr.GetNumber(), run.GetName(), run.GetStatus())
		}
	}
	for _, name := range []string{"sandpiper / sum", "sandpiper / lint", "sandpiper / gates", "sandpiper / review"} {
		if names[name] != 1 {
			s.t.Errorf("pull request #%d: %d Check Runs %s, want one; there are %v", pr.GetNumber(), names[name], name, names)
		}
	}
}

func (s *storm) run(missions, borders, random int) {
	s.label(missions)
	for i := range max(borders, random) {
		if s.over() { // on a quick machine: what happens is to happen to somebody
			s.label(1 + missions/10)
		}
		if i < random {
			s.atRandom(i)
		}
		if i < borders {
			s.atBorder()
		}
	}
	s.judge()
}

// TestCrash kills bots and supervisors with -9, right after steps were recorded and at random moments, at which the database and
// GitHub go away as well. The long form is `make crash`: CRASH_MISSIONS, CRASH_BORDERS and CRASH_RANDOM say how many.
func TestCrash(t *testing.T) {
	t.Parallel()
	missions, borders, random := stormSize("CRASH_MISSIONS", 4), stormSize("CRASH_BORDERS", 6), stormSize("CRASH_RANDOM", 4)
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		newFileStorm(t).run(missions, borders, random)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		if os.Getenv("CRASH_MISSIONS") == "" {
			t.Skip("the long form only: two bots on PostgreSQL are the harder case")
		}
		t.Parallel()
		newServerStorm(t, 1).run(missions, borders, random)
	})
	t.Run("PostgreSQLTwoBots", func(t *testing.T) {
		t.Parallel()
		newServerStorm(t, 2).run(missions, borders, random)
	})
}

// TestTwoBotsShareTheWork and take over from each other: one is killed with -9 for good while its agent works.
func TestTwoBotsShareTheWork(t *testing.T) {
	t.Parallel()
	s := newStorm(t, 2, database.Database(t))
	s.label(8)
	a, b := s.bots[0], s.bots[1]
	busy := func(w *world) bool {
		found, _ := filepath.Glob(filepath.Join(w.dir, "state", "*", "*", "exec/agent/log")) // of a run, or archived already
		return len(found) > 0
	}
	// On a busy machine one bot may be done with all of them before the other comes to its turn.
	a.until("both have had work, or all is over", func() bool { return busy(a) && busy(b) || s.over() })
	a.bot.kill()
	must(t, a.double.SetHook(a.app.Slug, b.bot.url+"/webhook", secret))
	began := time.Now()
	b.until("the other bot has ended everything", s.over)
	t.Logf("all was over %s after the kill", time.Since(began).Round(time.Second))
	s.bots = s.bots[1:] // what lies on the dead machine's disk lies there
	for _, n := range s.issues {
		if got := b.comments(n); len(got) != 1 || !strings.Contains(got[0], "**changed**") {
			t.Errorf("issue %d: %q", n, got)
		}
	}
	if got := len(b.pulls()); got != len(s.issues) {
		t.Errorf("%d pull requests, want %d", got, len(s.issues))
	}
	a.start() // it comes back, and cleans up what is no longer its own
	a.until("the dead machine is clean", func() bool {
		return len(a.runs()) == 0 || !strings.Contains(a.bot.text(), `"level":"ERROR"`)
	})
}

// TestStopInTheMiddle stops a bot that has work: it exits with 0 and the next one goes on.
func TestStopInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("sleep 20\n"+fixes))
	w.start()
	n := w.openIssue("Sum returns 0", "")
	w.label("octavia", n)
	w.until("the agent works", func() bool {
		return len(must1(filepath.Glob(filepath.Join(w.dir, "state/runs/*/exec/agent/log")))(t)) == 1
	})
	if code := w.bot.stop(); code != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", code)
	}
	w.start()
	w.ended(n, "changed") // the agent went on meanwhile
}
