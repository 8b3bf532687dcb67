package sandbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox/internal/durable"
	"github.com/sandpiper-bot/sandpiper/sandbox/internal/flock"
)

// job is the directory of one command.
type job string

func (j job) file(name string) string { return filepath.Join(string(j), name) }

// began is written before a command starts: it is never started again after that.
type began struct {
	PID        int    `json:"pid"`
	Ticks      string `json:"ticks"`      // start time of the process, as a pid is used again
	Supervisor bool   `json:"supervisor"` // a process for this command alone, which may be killed
}

// ended is exit.json.
type ended struct {
	Exit
	Findings []Finding `json:"findings,omitempty"`
}

// started is command.json.
type started struct {
	Name    string  `json:"name"`
	Command Command `json:"command"`
}

var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// fileName turns the name of a command, which may be any text, into one for its directory.
func fileName(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	slug := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
	sum := sha256.Sum256([]byte(name))
	return "x-" + slug[:min(len(slug), 32)] + "." + hex.EncodeToString(sum[:5])
}

func jobIn(dir, name string) job { return job(filepath.Join(dir, "exec", fileName(name))) }

// job finds a command of a sandbox that may have been discarded.
func (m *Manager) job(id ID, name string) (job, error) {
	if !idForm.MatchString(string(id)) {
		return "", fmt.Errorf("sandbox %q: %w", id, ErrUnknown)
	}
	for _, dir := range []string{m.dir(id), m.archived(id)} {
		j := jobIn(dir, name)
		if _, err := os.Stat(j.file("command.json")); err == nil {
			return j, nil
		}
	}
	return "", fmt.Errorf("command %q of sandbox %s: %w", name, id, ErrUnknown)
}

// Log is the path of a command's log. It exists once the command has started.
func (m *Manager) Log(id ID, name string) string {
	j, err := m.job(id, name)
	if err != nil {
		j = jobIn(m.dir(id), name)
	}
	return j.file("log")
}

// enter makes ready for a command: the sandbox is running from here on, and what was collected before is out of date.
func (m *Manager) enter(r *run) error {
	if !r.rec.Made {
		return fmt.Errorf("sandbox %s: its workspace was not finished, create it again", r.id)
	}
	r.rec.State, r.rec.Result = Running, ""
	return m.save(r)
}

// Run runs a command in the foreground, as a child of this process that dies with it, and returns after its last process is
// dead. The error is for what could not be begun.
func (m *Manager) Run(ctx context.Context, id ID, c Command, io Stdio) (Exit, error) {
	r, err := m.acquire(ctx, id)
	if err != nil {
		return Exit{}, err
	}
	j := jobIn(r.dir, "run-"+strings.ToLower(rand.Text()[:10]))
	l, err := m.claim(ctx, r, j, c)
	r.release()
	if err != nil {
		return Exit{}, err
	}
	end, err := m.live(ctx, r, j, r.dir, c, io)
	os.RemoveAll(string(j))
	l.release()
	return end.Exit, errors.Join(err, m.leave(ctx, id, end))
}

// life is a command that lives: its lock, and its share of the sandbox's.
type life struct{ own, busy *flock.Lock }

func (l *life) release() {
	l.busy.Unlock()
	l.own.Unlock()
}

// claim takes the locks of a foreground command. The lock of the sandbox is held.
func (m *Manager) claim(ctx context.Context, r *run, j job, c Command) (*life, error) {
	if err := os.MkdirAll(string(j), 0o700); err != nil {
		return nil, err
	}
	l, err := takeLife(ctx, r.dir, j)
	if err != nil {
		return nil, err
	}
	// Of a command that ends with this process nothing has to outlast a power cut.
	err = durable.ReplaceJSON(j.file("command.json"), started{Name: filepath.Base(string(j)), Command: c})
	if err == nil {
		err = durable.ReplaceJSON(j.file("began.json"), began{PID: os.Getpid(), Ticks: ticks(os.Getpid())})
	}
	if err == nil {
		err = m.enter(r)
	}
	if err != nil {
		l.release()
		return nil, errors.Join(err, os.RemoveAll(string(j)))
	}
	return l, nil
}

func takeLife(ctx context.Context, dir string, j job) (*life, error) {
	// Somebody who asks whether the lock is held holds it for a moment, hence a short wait.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	own, err := flock.Wait(ctx, j.file("lock"), flock.Exclusive)
	if err != nil {
		return nil, err
	}
	busy, err := flock.Wait(ctx, filepath.Join(dir, "busy"), flock.Shared)
	if err != nil {
		own.Unlock()
		return nil, err
	}
	return &life{own, busy}, nil
}

// live runs the command until it ends, is cancelled, or a stop file appears. What is recorded of it meanwhile goes to a directory
// that stays.
func (m *Manager) live(ctx context.Context, r *run, j job, records string, c Command, io Stdio) (ended, error) {
	ctx, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			if _, err := os.Lstat(j.file("stop")); err == nil {
				cancel()
			}
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	}()
	w := m.workspace(r)
	w.Exec = records
	exit, findings, err := r.backend.Launch(ctx, w, c, io)
	cancel()
	<-watched
	return ended{Exit: exit, Findings: findings}, err
}

// leave gives the sandbox its state after a command, also when the context of the command has ended.
func (m *Manager) leave(ctx context.Context, id ID, end ended) error {
	ctx = context.WithoutCancel(ctx)
	r, err := m.acquire(ctx, id)
	var gone *ErrState
	if errors.As(err, &gone) || errors.Is(err, ErrUnknown) { // discarded in the meantime
		return nil
	}
	if err != nil {
		return err
	}
	defer r.release()
	r.note(end.Findings)
	weaker := !slices.Equal(r.rec.Watched, end.Watched)
	if r.rec.Watched = end.Watched; weaker || len(end.Findings) > 0 {
		if err := m.save(r); err != nil {
			return err
		}
	}
	if len(end.Findings) > 0 {
		m.tell(id, "findings", "", end.Findings)
	}
	return m.settle(ctx, r)
}

// note adds findings to the record: those that it has already, at another time, are not repeated.
func (r *run) note(findings []Finding) {
	type key struct{ kind, evidence, outcome string }
	have := map[key]bool{}
	for _, f := range r.rec.Findings {
		have[key{f.Kind, f.Evidence, f.Outcome}] = true
	}
	for _, f := range findings {
		if k := (key{f.Kind, f.Evidence, f.Outcome}); !have[k] {
			have[k] = true
			r.rec.Findings = append(r.rec.Findings, f)
		}
	}
}

// Poll says how a command that Start started is doing. Done with Reason Lost: its supervisor died and left no exit status.
// ErrUnknown: Start was never called for it.
func (m *Manager) Poll(ctx context.Context, id ID, name string) (Exit, bool, error) {
	j, err := m.job(id, name)
	if err != nil {
		return Exit{}, false, err
	}
	m.reap()
	// While the lock is held the command has not left the sandbox, even if its exit status is there already.
	held, err := flock.Held(j.file("lock"), flock.Shared)
	if err != nil {
		return Exit{}, false, fmt.Errorf("command %q of sandbox %s: %w", name, id, err)
	}
	if held {
		return Exit{}, false, nil
	}
	var end ended
	if err := durable.ReadJSON(j.file("exit.json"), &end); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return end.Exit, err == nil, err
	}
	stopped := exists(j.file("stop"))
	switch {
	case stopped:
		return Exit{Code: 137, Reason: Cancelled, Message: "stopped; its supervisor left no exit status"}, true, nil
	case exists(j.file("began.json")):
		return Exit{Code: -1, Reason: Lost, Message: "the supervisor died without leaving an exit status"}, true, nil
	}
	return Exit{}, false, nil // not begun: Start was killed in the middle, and begins it when it is called again
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// reap waits for the supervisors that this process has started and that have ended, so that no zombie stays.
func (m *Manager) reap() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for j, pid := range m.children {
		if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); got == pid || err != nil {
			delete(m.children, j)
		}
	}
}

// Stop ends a command and all its processes, and returns when they are dead. A command that has ended is as it should be.
func (m *Manager) Stop(ctx context.Context, id ID, name string) error {
	j, err := m.job(id, name)
	if err != nil {
		return err
	}
	if exists(j.file("exit.json")) {
		return nil
	}
	err = m.stop(ctx, j)
	if err == nil && !exists(j.file("exit.json")) { // killed, and its jail with it, though not in the same instant
		err = m.bury(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("stop command %q of sandbox %s: %w", name, id, err)
	}
	m.tell(id, "stopped", name, nil)
	return nil
}

// bury waits until nothing lives of a command whose supervisor was killed. Beside another command there is no telling whose a
// process is; what is collected later waits for all.
func (m *Manager) bury(ctx context.Context, id ID) error {
	r, err := m.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer r.release()
	busy, err := m.quiet(ctx, r)
	if errors.Is(err, ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := busy.Unlock(); err != nil {
		return err
	}
	return m.settle(ctx, r)
}

// stop asks first, by a file (which also stops what has not begun yet) and a signal, and kills the supervisor after a
// second and a half: the jail dies with its parent.
func (m *Manager) stop(ctx context.Context, j job) error {
	if err := durable.Write(j.file("stop"), nil); err != nil {
		return err
	}
	var b began
	if err := durable.ReadJSON(j.file("began.json"), &b); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	kill := func(s syscall.Signal) {
		// The lock says that the process lives; its start time, that the pid still is that process.
		if held, _ := flock.Held(j.file("lock"), flock.Shared); held && b.Supervisor && ticks(b.PID) == b.Ticks {
			syscall.Kill(b.PID, s)
		}
	}
	kill(syscall.SIGTERM)
	if err := m.awaitEnd(ctx, j, 1500*time.Millisecond); err == nil || ctx.Err() != nil {
		return err
	}
	kill(syscall.SIGKILL)
	return m.awaitEnd(ctx, j, 5*time.Second)
}

func (m *Manager) awaitEnd(ctx context.Context, j job, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	l, err := flock.Wait(ctx, j.file("lock"), flock.Shared)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	m.reap()
	return l.Unlock()
}

// ticks is the start time of a process, in the kernel's ticks since boot; "" when there is none.
func ticks(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command name, in parentheses, may hold anything; the 20th field after it is the start time: proc(5).
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 20 || fields[0] == "Z" {
		return ""
	}
	return fields[19]
}

// closeInherited closes what a supervisor got from its parent beyond the standard three: everything that Go opens itself
// is marked close-on-exec. A pipe kept open would make somebody wait for this process.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil || fd < 3 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}
