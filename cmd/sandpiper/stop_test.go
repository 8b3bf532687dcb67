package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// halfDelivered begins to deliver a webhook, up to where the bot asks for the body.
func (w *world) halfDelivered(body string) (net.Conn, *bufio.Reader) {
	w.t.Helper()
	conn := must1(net.Dial("tcp", strings.TrimPrefix(w.bot.url, "http://")))(w.t)
	w.t.Cleanup(func() { conn.Close() })
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	fmt.Fprintf(conn, "POST /webhook HTTP/1.1\r\nHost: bot\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-GitHub-Event: issues\r\n"+
		"X-GitHub-Delivery: %s\r\nX-Hub-Signature-256: sha256=%s\r\nExpect: 100-continue\r\n\r\n", len(body), newGUID(), hex.EncodeToString(mac.Sum(nil)))
	answers := bufio.NewReader(conn)
	if asks := must1(http.ReadResponse(answers, nil))(w.t); asks.StatusCode != http.StatusContinue {
		w.t.Fatalf("the bot says %s", asks.Status)
	}
	return conn, answers
}

// refuses waits until the bot takes no more connections.
func (w *world) refuses() {
	w.t.Helper()
	w.until("the bot takes no more connections", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.bot.url, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// TestStopAnswersWhatIsInFlight: what GitHub is delivering when the bot is asked to stop is stored and answered.
func TestStopAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	const body = `{"action":"labeled","issue":{"number":1},"label":{"name":"sandpiper"},"repository":{"id":1},"installation":{"id":1},"sender":{"login":"octavia","id":2}}`
	conn, answers := w.halfDelivered(body)
	w.bot.cmd.Process.Signal(syscall.SIGTERM)
	w.refuses()
	must1(io.WriteString(conn, body))(t)
	answer := must1(http.ReadResponse(answers, nil))(t)
	if answer.StatusCode != http.StatusAccepted {
		t.Errorf("the delivery is answered with %s", answer.Status)
	}
	<-w.bot.done
	if code := w.bot.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit status %d", code)
	}
}

// TestSecondSignalDoesNotAsk ends a bot at once that still waits for a delivery to come in.
func TestSecondSignalDoesNotAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, calc(fixes))
	w.start()
	w.halfDelivered(`{"action":"opened"}`)
	w.bot.cmd.Process.Signal(syscall.SIGTERM)
	w.refuses()
	w.bot.cmd.Process.Signal(syscall.SIGTERM)
	<-w.bot.done
	if status := w.bot.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want by the signal", status)
	}
}

// TestRollingUpgrade has a newer program migrate the database of two bots that have work. Both work on; one that starts after
// that says what it needs; and the one that stays ends everything.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	url := database.Database(t)
	s := newStorm(t, 2, url)
	s.label(4)
	a, b := s.bots[0], s.bots[1]
	db := must1(sql.Open("pgx", url))(t)
	defer db.Close()
	for _, statement := range []string{
		"alter table missions add column future text not null default 'x'",
		"create table futures (id text primary key)",
		"insert into schema_version (version) select max(version) + 1 from schema_version",
	} {
		must1(db.ExecContext(t.Context(), statement))(t)
	}
	s.label(4)
	if code := a.bot.stop(); code != 0 {
		t.Errorf("exit status %d of the first that is replaced", code)
	}
	var said bytes.Buffer
	again := exec.Command(a.bot.cmd.Path, "serve")
	again.Env, again.Stderr = a.bot.cmd.Env, &said
	if err := again.Run(); err == nil || !strings.Contains(said.String(), "newer than this program") {
		t.Errorf("the older program on the newer database: %v, %s", err, said.String())
	}
	must(t, a.double.SetHook(a.app.Slug, b.bot.url+"/webhook", secret))
	b.until("the other bot has ended everything", s.over)
	for _, n := range s.issues {
		if got := b.comments(n); len(got) != 1 || !strings.Contains(got[0], "**changed**") {
			t.Errorf("issue %d: %q", n, got)
		}
	}
	if got := len(b.pulls()); got != len(s.issues) {
		t.Errorf("%d pull requests, want %d", got, len(s.issues))
	}
}
