package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/fixtures/postgres"
)

// program runs a command of the program with the bot's settings and gives what it printed and its exit status.
func (w *world) program(args ...string) (string, int) {
	w.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "SANDPIPER_STATE_DIR=" + filepath.Join(w.dir, "state")}, w.env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// TestMissionsCommand looks at missions and steers them beside a running bot.
func TestMissionsCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc("sleep 12\n"+fixes))
	if out, code := w.program("missions", "list"); code != 1 || !strings.Contains(out, "SANDPIPER_STATE_DIR") {
		t.Errorf("without a database: %d, %s", code, out)
	}
	w.start()
	n := w.openIssue("Sum returns 0\x1b[31m", "")
	w.label("octavia", n)
	agentLog := filepath.Join(w.dir, "state/runs/*/exec/agent/log")
	w.until("the agent works", func() bool { return len(must1(filepath.Glob(agentLog))(t)) == 1 })

	var list []missionLine
	out, code := w.program("missions", "list", "--open", "--json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list) != 1 || list[0].Step != "execute" {
		t.Fatalf("list: %d, %v, %s", code, err, out)
	}
	id := list[0].ID
	if out, code := w.program("missions", "list"); code != 0 || !strings.Contains(out, id) || strings.Contains(out, "\x1b") {
		t.Errorf("list for people: %d, %q", code, out)
	}
	if out, code := w.program("missions", "show", id); code != 0 || !strings.Contains(out, fmt.Sprintf("acme/calc#%d", n)) || !strings.Contains(out, "run ") {
		t.Errorf("show: %d, %s", code, out)
	}
	if out, code := w.program("missions", "show", "m-nosuch"); code != 1 || !strings.Contains(out, "'sandpiper missions list'") {
		t.Errorf("show of none: %d, %s", code, out)
	}
	if out, code := w.program("missions", "retry", id); code != 1 || !strings.Contains(out, "cancel it first") {
		t.Errorf("retry of an open mission: %d, %s", code, out)
	}
	if out, code := w.program("missions", "cancel", id); code != 0 {
		t.Errorf("cancel: %d, %s", code, out)
	}
	w.ended(n, "cancelled")
	w.until("it is closed", func() bool { return strings.Contains(w.bot.text(), `"next":"ended"`) })
	if out, code := w.program("missions", "cancel", id); code != 1 || !strings.Contains(out, "ended already; 'sandpiper missions retry "+id) {
		t.Errorf("cancel of an ended mission: %d, %s", code, out)
	}
	if out, code := w.program("missions", "retry", id); code != 0 {
		t.Errorf("retry: %d, %s", code, out)
	}
	w.ended(n, "changed")
	if out, code := w.program("missions", "show", "m-nosuch"); code != 1 {
		t.Errorf("show of none: %d, %s", code, out)
	}
}

// opsAddr is where a running bot shows itself to operators.
func (w *world) opsAddr() string {
	w.t.Helper()
	said := regexp.MustCompile(`"ops":"([^"]+)"`)
	w.until("the operators' address is told", func() bool { return said.MatchString(w.bot.text()) })
	return "http://" + said.FindStringSubmatch(w.bot.text())[1]
}

// TestOperatorsAddress looks at what a running bot shows to operators, and only there.
func TestOperatorsAddress(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"SQLite":     func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string { return database.Database(t) },
		"PostgreSQL over TCP": func(t *testing.T) string {
			remote := &postgres.Server{TCP: true}
			t.Cleanup(remote.Stop)
			return remote.Database(t)
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			at := address(t)
			w := newWorld(t, calc(fixes))
			const password = "correct horse battery"
			w.env = []string{"SANDPIPER_OPS_LISTEN=127.0.0.1:0", "SANDPIPER_ADMIN_PASSWORD=" + password, "DATABASE_URL=" + at}
			w.start()
			ops := w.opsAddr()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.ended(n, "changed")
			for path, want := range map[string]string{
				"/healthz": "ok", "/readyz": `"seconds_since_last_delivery"`,
				"/metrics": `sandpiper_steps_total{result="done",step="promote"} 1`,
			} {
				w.until(path+" says "+want, func() bool {
					code, body := fetch(t, ops+path, "")
					return code == 200 && strings.Contains(body, want)
				})
			}
			if code, _ := fetch(t, ops+"/queue/", ""); code != http.StatusUnauthorized {
				t.Errorf("the queue's page without a login: %d", code)
			}
			for _, path := range []string{"/queue/", "/queue/api/states"} {
				if code, body := fetch(t, ops+path, password); code != 200 {
					t.Errorf("%s: %d %s", path, code, body)
				}
			}
			w.until("the page shows the job that is done", func() bool {
				code, body := fetch(t, ops+"/queue/api/jobs?state=completed", password)
				return code == 200 && strings.Contains(body, `"kind":"tick"`)
			})
			for _, path := range []string{"/metrics", "/queue/"} {
				if code := w.get(path); code != http.StatusNotFound {
					t.Errorf("%s is open to the world: %d", path, code)
				}
			}
		})
	}
}

func fetch(t *testing.T, url, password string) (int, string) {
	t.Helper()
	request := must1(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	if password != "" {
		request.SetBasicAuth("admin", password)
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	var b strings.Builder
	answer.Write(&b)
	return answer.StatusCode, b.String()
}

// TestWishFromTheCommandLine is queued with the wish, so that the bot obeys at once and not when it looks around for what it
// has missed.
func TestWishFromTheCommandLine(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]func(*testing.T) string{
		"SQLite":     func(*testing.T) string { return "" },
		"PostgreSQL": func(t *testing.T) string { return database.Database(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, calc(fixes))
			url := address(t)
			w.env = []string{"DATABASE_URL=" + url}
			w.start()
			n := w.openIssue("Sum returns 0", "")
			w.label("octavia", n)
			w.until("the mission waits", func() bool { return strings.Contains(w.bot.text(), `"next":"waiting"`) })
			w.until("no tick is queued for a mission that waits for people", func() bool { return w.queued(url) == 0 })
			w.bot.stop()            // so that nobody takes what is queued
			before := w.queued(url) // a webhook that came meanwhile may have made the mission look
			if out, code := w.program("missions", "cancel", w.only().ID); code != 0 {
				t.Fatalf("cancel: %d, %s", code, out)
			}
			if got := w.queued(url); got != before+1 {
				t.Errorf("%d ticks are queued, %d before the wish; want one more", got, before)
			}
			w.start()
			w.closed()
		})
	}
}

// queued counts the ticks that wait in the bot's database.
func (w *world) queued(url string) (n int) {
	w.t.Helper()
	driver := "pgx"
	if url == "" {
		driver, url = "sqlite", "file:"+filepath.Join(w.dir, "state", "sandpiper.db")
	}
	db := must1(sql.Open(driver, url))(w.t)
	defer db.Close()
	must(w.t, db.QueryRowContext(w.t.Context(), "select count(*) from river_job where kind = 'tick' and state in ('available', 'scheduled')").Scan(&n))
	return n
}
