package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/fixtures/postgres"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

var server postgres.Server

func TestMain(m *testing.M) {
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// onBoth runs a test on each of the two databases: it is one contract.
func onBoth(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "a file?name#1.db") },
		"postgres": server.Database,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.Context(), address(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			test(t, s)
		})
	}
}

func mission(id, trigger string) *Mission {
	return &Mission{
		ID: id, Kind: KindIssue, InstallationID: 1, RepositoryID: 42, Owner: "acme", Name: "calc", Number: 7, Title: "Sum is 0",
		Task: "{}", TriggerKey: trigger, Requester: "octavia", RequesterID: 5, TriggeredAt: noon, Step: "take", Attempt: 1,
		Run: "r-1-1", DueAt: noon, CreatedAt: noon, UpdatedAt: noon,
	}
}

func TestOneOpenMissionForAnIssue(t *testing.T) { onBoth(t, testOneOpenMissionForAnIssue) }

func testOneOpenMissionForAnIssue(t *testing.T, s *Store) {
	first := mission("m-1", "delivery:a")
	if err := s.Begin(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(t.Context(), mission("m-2", "delivery:b")); !errors.Is(err, ErrOpen) {
		t.Errorf("second mission: %v, want ErrOpen", err)
	}
	first.EndedAt = noon.Add(time.Hour)
	if err := s.Save(t.Context(), first, noon); err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(t.Context(), mission("m-3", "delivery:a")); !errors.Is(err, ErrOpen) {
		t.Errorf("the same trigger again: %v, want ErrOpen", err)
	}
	if err := s.Begin(t.Context(), mission("m-4", "delivery:c")); err != nil {
		t.Errorf("a new trigger after the end: %v", err)
	}
	last, err := s.LastMission(t.Context(), 42, 7, KindIssue)
	if err != nil || last.ID != "m-4" {
		t.Errorf("last mission %v, %v; want the open one", last, err)
	}
}

func TestMissionRoundTrip(t *testing.T) { onBoth(t, testMissionRoundTrip) }

func testMissionRoundTrip(t *testing.T, s *Store) {
	want := mission("m-1", "comment:9:1")
	want.Want, want.NextHead = "", ""
	if err := s.Begin(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want.Step, want.Base, want.Pull, want.Outcome, want.Failures, want.Defects, want.Trouble, want.CommentID = "waiting", "4f1c2ab", 2, "changed", 3, 2, "away", 77
	want.PullURL, want.Branch, want.Head, want.Policy, want.PolicySource, want.OwnRules = "u", "b", "h", "{}", "p", "[]"
	want.DueAt = time.Time{}
	if err := s.Save(t.Context(), want, noon.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Mission(t.Context(), "m-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mission (-want +got):\n%s", diff)
	}
	if _, err := s.Mission(t.Context(), "m-none"); !errors.Is(err, ErrNone) {
		t.Errorf("unknown mission: %v, want ErrNone", err)
	}
}

// TestTextThatIsNone: an error of git holds a name in Latin-1, and what a server says may hold anything.
func TestTextThatIsNone(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		m := mission("m-1", "delivery:a")
		if err := s.Begin(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		m.Trouble = "caf\xe9 \x00 é"
		if err := s.Save(t.Context(), m, noon); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Mission(t.Context(), m.ID); err != nil || got.Trouble != "caf\ufffd \ufffd é" {
			t.Errorf("trouble %q, %v", got.Trouble, err)
		}
	})
}

// A tick that saves while a person asks for something must not write over the wish.
func TestSaveKeepsWishes(t *testing.T) { onBoth(t, testSaveKeepsWishes) }

func testSaveKeepsWishes(t *testing.T, s *Store) {
	m := mission("m-1", "delivery:a")
	if err := s.Begin(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if err := s.Want(t.Context(), m.ID, "cancel", "octavia", noon); err != nil {
		t.Fatal(err)
	}
	if err := s.Supersede(t.Context(), m.ID, "9ad01ce", "sandpiper / test", noon); err != nil {
		t.Fatal(err)
	}
	m.Step, m.DueAt = "execute", time.Time{}
	if err := s.Save(t.Context(), m, noon); err != nil {
		t.Fatal(err)
	}
	got, err := s.Mission(t.Context(), m.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cancel", "octavia", "9ad01ce", "sandpiper / test", "execute"}, []string{got.Want, got.WantBy, got.NextHead, got.OnlyCheck, got.Step}); diff != "" {
		t.Errorf("wishes (-want +got):\n%s", diff)
	}
	if !got.DueAt.Equal(noon) {
		t.Errorf("due at %v after a save by a tick that did not know of the wish, want now", got.DueAt)
	}
	if err := s.Superseded(t.Context(), m.ID, "an older head"); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.Mission(t.Context(), m.ID); got.NextHead != "9ad01ce" {
		t.Errorf("a newer head was forgotten with an older one")
	}
}

func TestRunsPromotionsFindingsEffects(t *testing.T) { onBoth(t, testRunsPromotionsFindingsEffects) }

func testRunsPromotionsFindingsEffects(t *testing.T, s *Store) {
	ctx := t.Context()
	if err := s.Begin(ctx, mission("m-1", "delivery:a")); err != nil {
		t.Fatal(err)
	}
	run := &Run{ID: "r-1-1", Mission: "m-1", Attempt: 1, Base: "b", CreatedAt: noon}
	for _, result := range []string{"", "abc"} {
		run.Result = result
		if err := s.SaveRun(ctx, run); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Run(ctx, "r-1-1")
	if diff := cmp.Diff(run, got); diff != "" || err != nil {
		t.Errorf("run: %v (-want +got):\n%s", err, diff)
	}
	p := Promotion{Run: "r-1-1", Mission: "m-1", Commit: "c", Branch: "sandpiper/7-sum-1", Pull: 2, Manifest: "{}", Digest: "sha256:0", CreatedAt: noon}
	for range 2 {
		if err := s.SavePromotion(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Promotion(ctx, "r-1-1"); err != nil || cmp.Diff(p, got) != "" {
		t.Errorf("promotion %v (-want +got):\n%s", err, cmp.Diff(p, got))
	}
	f := sandbox.Finding{Run: "r-1-1", Time: noon, Kind: "collect.special", Severity: "low", Observer: "host", Evidence: "p: a FIFO", Outcome: "contained"}
	for i := range 2 {
		fresh, err := s.AddFindings(ctx, []sandbox.Finding{f})
		if err != nil || len(fresh) != 1-i {
			t.Fatalf("%d new findings the %d. time, %v", len(fresh), i+1, err)
		}
	}
	if got, err := s.Findings(ctx, "r-1-1"); err != nil || cmp.Diff([]sandbox.Finding{f}, got) != "" {
		t.Errorf("findings %v (-want +got):\n%s", err, cmp.Diff([]sandbox.Finding{f}, got))
	}
	if err := s.AddEffect(ctx, "status:m-1", 11, noon); err != nil {
		t.Fatal(err)
	}
	if err := s.AddEffect(ctx, "status:m-1", 12, noon); err != nil {
		t.Fatal(err)
	}
	if id, done, err := s.Effect(ctx, "status:m-1"); id != 11 || !done || err != nil {
		t.Errorf("effect %d %v %v, want the first id", id, done, err)
	}
	for since, want := range map[time.Time]int{noon: 1, noon.Add(time.Second): 0} {
		if n, err := s.EffectsSince(ctx, "status:", since); n != want || err != nil {
			t.Errorf("%d effects since %v, %v; want %d", n, since, err, want)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.exec(t.Context(), "insert into schema_version (version) values (999)"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(t.Context(), file); err == nil {
		t.Error("a database of a newer program was opened")
	}
}

func TestLeases(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		if err := s.Begin(t.Context(), mission("m-1", "delivery:a")); err != nil {
			t.Fatal(err)
		}
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := s.Lease(context.Background(), "m-1", fmt.Sprintf("h/%d", i), noon, noon.Add(time.Minute))
				if err == nil {
					won.Add(1)
				} else if !errors.Is(err, ErrLeased) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d workers have the mission, want 1", won.Load())
		}
		if _, err := s.Lease(t.Context(), "m-1", "other/1", noon.Add(2*time.Minute), noon.Add(3*time.Minute)); err != nil {
			t.Errorf("a lease that ran out: %v", err)
		}
		if found, err := s.Overdue(t.Context(), noon, noon.Add(2*time.Minute)); err != nil || len(found) != 0 {
			t.Errorf("overdue although leased: %v, %v", found, err)
		}
		if err := s.UnleaseHost(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
		if found, err := s.Overdue(t.Context(), noon, noon.Add(2*time.Minute)); err != nil || len(found) != 1 {
			t.Errorf("overdue: %v, %v; want one", found, err)
		}
	})
}

func TestScheduleIsOneAtATime(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		for i := range 6 {
			m := mission(fmt.Sprintf("m-%d", i), fmt.Sprintf("delivery:%d", i))
			m.Number, m.Step, m.ReadyAt = i, "queue", noon
			if err := s.Begin(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		var in atomic.Int32
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				begun, err := s.Schedule(context.Background(), "h", "", noon, func(all []Place) (plan Plan) {
					free := 2
					for _, p := range all {
						if p.Host != "" {
							free--
						}
					}
					for _, p := range all {
						if p.Host == "" && len(plan.Begin) < free {
							plan.Begin = append(plan.Begin, p.ID)
						}
					}
					return plan
				})
				if err != nil {
					t.Error(err)
				}
				in.Add(int32(len(begun)))
			})
		}
		wg.Wait()
		if in.Load() != 2 {
			t.Errorf("%d begun, want 2", in.Load())
		}
		if waiting, here, err := s.Waiting(t.Context(), "h"); err != nil || waiting != 4 || here != 2 {
			t.Errorf("%d wait and %d are here (%v), want 4 and 2", waiting, here, err)
		}
		if err := s.Beat(t.Context(), "h", "here", noon); err != nil {
			t.Fatal(err)
		}
		if found, err := s.Stranded(t.Context(), noon.Add(time.Second)); err != nil || len(found) != 2 {
			t.Errorf("stranded: %d, %v; want 2", len(found), err)
		}
	})
}
