package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// readyWait is how long Start waits for its supervisor to say that it has begun: the start of a Go program on a busy machine.
const readyWait = 30 * time.Second

// Start starts a command under a supervisor, a process in a session of its own that outlives this one, keeps the log and
// leaves the exit status. Two calls with one name, from any process and at any time, start one command.
func (m *Manager) Start(ctx context.Context, id ID, name string, c Command) error {
	for _, text := range slices.Concat(c.Argv, c.Env, []string{c.Stdin}) {
		if !utf8.ValidString(text) { // the record of the command is JSON, which would put U+FFFD in its place, silently
			return fmt.Errorf("start command %q in sandbox %s: %.50q is no UTF-8", name, id, text)
		}
	}
	r, err := m.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer r.release()
	j := jobIn(r.dir, name)
	begun, err := m.prepare(r, j, name, c)
	if err != nil || begun {
		return err
	}
	if err := m.spawn(ctx, r, j); err != nil {
		return fmt.Errorf("start command %q in sandbox %s: %w", name, id, err)
	}
	m.tell(id, "started", name, nil)
	return nil
}

// prepare writes the command down. begun says that it was started before, whatever became of it.
func (m *Manager) prepare(r *run, j job, name string, c Command) (begun bool, err error) {
	want, err := roundTrip(started{Name: name, Command: c})
	if err != nil {
		return false, fmt.Errorf("command %q of sandbox %s: %w", name, r.id, err)
	}
	var s started
	err = durable.ReadJSON(j.file("command.json"), &s)
	switch {
	case err == nil && !reflect.DeepEqual(s, want):
		return false, fmt.Errorf("command %q of sandbox %s exists and is another one", name, r.id)
	case err == nil:
		if exists(j.file("began.json")) || exists(j.file("exit.json")) {
			return true, nil
		}
		if held, err := flock.Held(j.file("lock"), flock.Shared); err != nil || held {
			return held, err
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(string(j), 0o700); err != nil {
			return false, err
		}
	default:
		return false, err
	}
	if err := m.enter(r); err != nil {
		return false, err
	}
	return false, durable.WriteJSON(j.file("command.json"), started{Name: name, Command: c})
}

// spawn starts the supervisor and waits until it holds its locks. The lock of the sandbox is held, so that nothing is
// collected in between.
func (m *Manager) spawn(ctx context.Context, r *run, j job) error {
	argv := m.cfg.Supervisor
	if argv == nil {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		argv = []string{self, "supervise"}
	}
	m.reap()
	log, err := os.OpenFile(j.file("supervisor.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ready, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], m.cfg.StateDir, string(r.id), filepath.Base(string(j)))...)
	cmd.Dir, cmd.Env = "/", m.cfg.SupervisorEnv
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	}
	cmd.Env = append(cmd.Env[:len(cmd.Env):len(cmd.Env)], readyName+"=3")
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{ours}
	settings, err := m.handOver()
	if err != nil {
		return err
	}
	if settings != nil {
		defer settings.Close()
		cmd.Env, cmd.ExtraFiles = append(cmd.Env, handOverName+"=4"), append(cmd.ExtraFiles, settings)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	ours.Close()
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.children[string(j)] = cmd.Process.Pid
	m.mu.Unlock()
	cmd.Process.Release() // waited for by reap: it may outlive us
	return m.awaitReady(ctx, ready, j)
}

// awaitReady reads the one byte that a supervisor writes when it has begun; nothing but the end of the pipe: it has died.
func (m *Manager) awaitReady(ctx context.Context, ready *os.File, j job) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	n, err := ready.Read(make([]byte, 1))
	if n == 1 || exists(j.file("began.json")) {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the supervisor has not begun: %w", ctx.Err())
	}
	m.reap()
	said, _ := os.ReadFile(j.file("supervisor.log"))
	return fmt.Errorf("the supervisor has ended at once (%v): %s", err, redact.New().Bytes(said[max(0, len(said)-2000):]))
}

// handOver fills a pipe with the settings that a supervisor is to get; nil when there are none.
func (m *Manager) handOver() (*os.File, error) {
	if len(m.cfg.HandOver) == 0 {
		return nil, nil
	}
	text := strings.Join(m.cfg.HandOver, "\x00")
	if len(text) > 32<<10 || strings.Count(text, "\x00") != len(m.cfg.HandOver)-1 {
		return nil, errors.New("settings for a supervisor: too long, or with a NUL in them") // a pipe takes 64 KiB with nobody reading
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("settings for a supervisor: %w", err)
	}
	_, err = io.WriteString(w, text)
	if err := errors.Join(err, w.Close()); err != nil {
		r.Close()
		return nil, fmt.Errorf("settings for a supervisor: %w", err)
	}
	return r, nil
}

// HandedOver gives a supervisor what Config.HandOver had for it. It can be read once.
func HandedOver() ([]string, error) {
	f := inherited(handOverName)
	if f == nil {
		return nil, nil
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("settings for a supervisor: %w", err)
	}
	return strings.Split(string(text), "\x00"), nil
}

// These tell a supervisor which descriptor to write to when it has begun, and from which one to read its settings.
const (
	readyName    = "SANDPIPER_SUPERVISE_READY"
	handOverName = "SANDPIPER_SUPERVISE_SETTINGS"
)

// inherited takes a descriptor that spawn gave, out of the reach of what this process starts. Nil: there is none.
func inherited(name string) *os.File {
	fd, err := strconv.Atoi(os.Getenv(name))
	os.Unsetenv(name)
	if err != nil || fd < 3 {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), name)
}

// roundTrip gives a command as it reads from its file, where an empty list is none.
func roundTrip(s started) (back started, err error) {
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &back)
	}
	return back, err
}

// Supervise runs a command that Start has written down, in a process of its own. It returns at once when the command was begun
// before. When the context ends (the process is told to), the command is killed and its exit says cancelled.
func Supervise(ctx context.Context, m *Manager, id ID, name string) error {
	ready := inherited(readyName) // nil: nobody waits for us
	if ready != nil {
		closeInherited()
	}
	if !idForm.MatchString(string(id)) {
		return fmt.Errorf("sandbox %q: %w", id, ErrUnknown)
	}
	r := &run{id: id, dir: m.dir(id)}
	j := jobIn(r.dir, name)
	var s started
	if err := durable.ReadJSON(j.file("command.json"), &s); err != nil {
		return fmt.Errorf("command %q of sandbox %s: %w", name, id, err)
	}
	if err := durable.ReadJSON(filepath.Join(r.dir, "run.json"), &r.rec); err != nil {
		return fmt.Errorf("sandbox %s: %w", id, err)
	}
	if r.backend = m.backends[r.rec.Backend]; r.backend == nil {
		return &ErrUnavailable{Backend: r.rec.Backend, Reason: "not configured"}
	}
	l, err := takeLife(ctx, r.dir, j)
	if errors.Is(err, context.DeadlineExceeded) { // another supervisor has it
		return nil
	}
	if err != nil {
		return err
	}
	if exists(j.file("began.json")) || exists(j.file("exit.json")) {
		l.release()
		return nil
	}
	end, err := m.supervise(ctx, r, j, s.Command, ready)
	if err == nil {
		err = durable.WriteJSON(j.file("exit.json"), end)
	}
	l.release()
	return errors.Join(err, m.leave(ctx, id, end))
}

// supervise begins, says so, and lives until the end.
func (m *Manager) supervise(ctx context.Context, r *run, j job, c Command, ready *os.File) (ended, error) {
	begun := began{PID: os.Getpid(), Ticks: ticks(os.Getpid()), Supervisor: ready != nil}
	if err := durable.WriteJSON(j.file("began.json"), begun); err != nil {
		return ended{}, err
	}
	if ready != nil {
		ready.Write([]byte{'1'})
		ready.Close()
	}
	log, err := os.OpenFile(j.file("log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return ended{}, err
	}
	// Patterns only: the values of secrets are not known here, and none is in the sandbox.
	out := redact.New().Writer(&capped{w: log, left: logCap(r.rec.Limits, c)})
	now := m.cfg.Now().UTC()
	if exists(j.file("stop")) {
		log.Close()
		return ended{Exit: Exit{Code: 137, Reason: Cancelled, Message: "stopped before it began", Started: now, Ended: now}}, nil
	}
	end, err := m.live(ctx, r, j, string(j), c, Stdio{Out: out, Err: out})
	err = errors.Join(err, out.Close(), log.Close())
	if err != nil {
		end.Exit = Exit{Code: 126, Reason: NotBegun, Message: err.Error(), Started: now, Ended: m.cfg.Now().UTC()}
		m.cfg.Log.Error("command did not start", "run", r.id, "err", err)
	}
	return end, nil
}

// logCap is the most that is kept of a command's output: as much as it may write, 64 MiB where nothing is said.
func logCap(l Limits, c Command) int64 {
	for _, n := range []int64{c.Output, l.Output} {
		if n > 0 {
			return n + 4<<10 // and what the jail says at its end
		}
	}
	return 64 << 20
}

// capped takes everything and writes the first bytes of it.
type capped struct {
	w    io.Writer
	left int64
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(int64(len(p)), c.left)
	if _, err := c.w.Write(p[:n]); err != nil {
		return 0, err
	}
	if c.left -= n; n < int64(len(p)) && n > 0 {
		io.WriteString(c.w, "\n[the log ends here: too much output]\n")
	}
	return len(p), nil
}

// RunCheck runs a command to its end as Start does: called again, also by another process, it finds the same command.
func (m *Manager) RunCheck(ctx context.Context, id ID, name string, c Command) (CheckResult, error) {
	if err := m.Start(ctx, id, name, c); err != nil {
		return CheckResult{}, err
	}
	delay := 5 * time.Millisecond
	for {
		exit, done, err := m.Poll(ctx, id, name)
		if err != nil {
			return CheckResult{}, err
		}
		if done {
			return CheckResult{Name: name, Command: c, Exit: exit, Log: m.Log(id, name)}, nil
		}
		t := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			t.Stop()
			return CheckResult{}, fmt.Errorf("check %q in sandbox %s: %w", name, id, ctx.Err())
		case <-t.C:
		}
		delay = min(2*delay, 200*time.Millisecond)
	}
}
