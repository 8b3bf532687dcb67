package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	gh "github.com/google/go-github/v60/github"
)

// stage is a GitHub of its own and the bot, as two real processes on loopback. demo and try act on it.
type stage struct {
	dir    string // everything of it: state, repositories, logs
	double doubleReady
	botURL string
	lines  chan logLine // of the bot, in order; closed when it ends
	procs  []*process
	turn   net.Listener // nil: another stage has the preferred ports
}

const anyPort = "127.0.0.1:0"

// logLine is what a stage reads of the bot's log.
type logLine struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Msg     string    `json:"msg"`
	Address string    `json:"address"`
	Mission string    `json:"mission"`
	Run     string    `json:"run"`
	Step    string    `json:"step"`
	Next    string    `json:"next"`
	Found   string    `json:"found"`
	Outcome string    `json:"outcome"`
	Message string    `json:"message"`
	Error   string    `json:"error"`
	Took    int64     `json:"took"` // nanoseconds
	Pull    int       `json:"pull"`
}

// stageOptions say what stands on the stage.
type stageOptions struct {
	repo, seed          string
	doubleAddr, botAddr string // preferred; another port is taken when one is in use
	env                 []string
}

// setStage starts both processes. The caller closes the stage, also after an error.
func setStage(ctx context.Context, dir string, o stageOptions) (*stage, error) {
	s := &stage{dir: dir, lines: make(chan logLine, 100)}
	for command, what := range map[string]string{"git": "git", "bwrap": "bubblewrap"} {
		if _, err := exec.LookPath(command); err != nil {
			return s, fmt.Errorf("%s is not installed (%w); on Debian: apt-get install %s", what, err, what)
		}
	}
	secret := rand.Text()
	// The ports that people know are for one stage at a time; the kernel lets go of the name when this process ends.
	var err error
	if o.botAddr != anyPort {
		if s.turn, err = net.Listen("unix", "@sandpiper-stage"); err != nil {
			o.botAddr, o.doubleAddr = anyPort, anyPort
		}
	}
	// The double is told of the hook before the bot listens, so the bot's port is chosen here.
	bot, err := freeAddr(o.botAddr)
	if err != nil {
		return s, err
	}
	double, err := freeAddr(o.doubleAddr)
	if err != nil {
		return s, err
	}
	s.botURL = "http://" + bot
	err = s.startDouble(ctx, "double", "--addr", double, "--dir", filepath.Join(dir, "github"), "--repo", o.repo, "--seed", o.seed, "--hook", s.botURL+"/webhook", secret)
	if err != nil {
		return s, err
	}
	return s, s.startBot(ctx, append([]string{
		"SANDPIPER_STATE_DIR=" + filepath.Join(dir, "state"), "SANDPIPER_LISTEN=" + bot, "SANDPIPER_OPS_LISTEN=" + anyPort,
		"SANDPIPER_GITHUB_URL=" + s.double.URL, "SANDPIPER_GITHUB_API_URL=" + s.double.URL, fmt.Sprintf("SANDPIPER_APP_ID=%d", s.double.AppID),
		"SANDPIPER_PRIVATE_KEY=" + s.double.Key, "SANDPIPER_WEBHOOK_SECRETS=" + secret, "SANDPIPER_WRITE_PACE=0s", "SANDPIPER_LOG_FORMAT=json",
	}, o.env...))
}

// whileRead ends ctx when nobody reads any more what is printed, as after head: without it that kills the program, and
// nothing would be cleaned up.
func whileRead(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGPIPE)
}

// freeAddr is addr if nobody listens there, or another port of loopback.
func freeAddr(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		l, err = net.Listen("tcp", anyPort)
	}
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *stage) startDouble(ctx context.Context, argsAndSecret ...string) error {
	args, secret := argsAndSecret[:len(argsAndSecret)-1], argsAndSecret[len(argsAndSecret)-1]
	p, err := s.spawn("github", args, []string{"SANDPIPER_DOUBLE_SECRET=" + secret})
	if err != nil {
		return err
	}
	go io.Copy(p.log, p.stderr)
	ready := make(chan error, 1)
	go func() { ready <- json.NewDecoder(p.stdout).Decode(&s.double) }()
	select {
	case err := <-ready:
		if err != nil {
			return fmt.Errorf("the stand-in for GitHub did not start: %w\n%s", err, tailOf(p.log.Name(), 2000))
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stage) startBot(ctx context.Context, env []string) error {
	p, err := s.spawn("bot", []string{"serve"}, env)
	if err != nil {
		return err
	}
	go s.readLog(p)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.botURL+"/readyz", nil)
		if err != nil {
			return err
		}
		if answer, err := http.DefaultTransport.RoundTrip(request); err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.ended:
			return fmt.Errorf("the bot did not start:\n%s", tailOf(p.log.Name(), 2000))
		case <-ctx.Done():
			return fmt.Errorf("the bot is not ready; see %s", p.log.Name())
		case <-ticker.C:
		}
	}
}

// readLog hands the bot's log on, line by line, and keeps it in a file.
func (s *stage) readLog(p *process) {
	defer close(s.lines)
	r := bufio.NewReader(io.TeeReader(p.stderr, p.log))
	for {
		text, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var line logLine
		if json.Unmarshal(text, &line) == nil {
			s.lines <- line
		}
	}
}

// process is one of the stage's two.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr io.Reader
	log            *os.File
	ended          chan struct{}
}

func (s *stage) spawn(name string, args, env []string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self, args...), log: log, ended: make(chan struct{})}
	// Nothing of the caller's environment but what finds programs: a proxy or a token there is not for a demo.
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + os.TempDir()}, env...)
	// Ctrl-C is for us, and we end them in order; killed, we cannot.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdout, p.cmd.Stderr, p.stdout, p.stderr = outW, errW, outR, errR
	started := make(chan error)
	go func() { // The kernel ends the child with this thread, so nothing but this runs on it.
		runtime.LockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.cmd.Wait()
		}
	}()
	err = <-started
	outW.Close()
	errW.Close()
	if err != nil {
		return nil, err
	}
	s.procs = append(s.procs, p)
	return p, nil
}

// close ends the bot and then the double, and waits for them.
func (s *stage) close() {
	for i := len(s.procs) - 1; i >= 0; i-- {
		p := s.procs[i]
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(30 * time.Second):
			p.cmd.Process.Kill()
			<-p.ended
		}
		p.log.Close()
	}
	if s.turn != nil {
		s.turn.Close()
	}
}

// endSandboxes discards what is open when the bot has ended. It leaves agents and checks to their supervisors, for the bot that comes
// next; on a stage none comes.
func (s *stage) endSandboxes() error {
	if !exists(filepath.Join(s.dir, "state", "runs")) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	boxes, err := openSandboxes([]string{"SANDPIPER_STATE_DIR=" + filepath.Join(s.dir, "state")})
	if err != nil {
		return err
	}
	open, err := boxes.List()
	for _, rec := range open {
		_, discardErr := boxes.Discard(ctx, rec.ID)
		err = errors.Join(err, discardErr)
	}
	return err
}

// left tells what a stage could not clean up. It changes nothing about what the command has come to.
func left(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandpiper: not cleaned up:", err)
	}
}

// stopped is the error of a command that was asked to stop: no failure that has to be explained. A shell's status for it is 130.
func stopped(what string) error { return exitError{130, errors.New("stopped; " + what)} }

// as is the stage's GitHub as a person sees it.
func (s *stage) as(login string) (*gh.Client, error) {
	client := gh.NewClient(&http.Client{Timeout: time.Minute}).WithAuthToken(s.double.Tokens[login])
	base, err := client.BaseURL.Parse(strings.TrimSuffix(s.double.URL, "/") + "/")
	client.BaseURL = base
	return client, err
}

func tailOf(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-n):])
}
