package main

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
	"github.com/sandpiper-bot/sandpiper/webhooks"
)

// Each of those that are compared is a process of its own. It prints its address, and ends with its standard input.
const (
	rivalFloor  = "floor"
	rivalBot    = "sandpiper"
	rivalProbot = "probot"
)

const intakeSecret = "a webhook secret for benchmarks"

// probotVersion is the one that is compared: https://github.com/probot/probot
const probotVersion = "14.3.2"

//go:embed probot.mjs
var probotServer []byte

// rival is a running server of webhooks.
type rival struct {
	cmd  *exec.Cmd
	in   io.Closer
	addr string
}

func startRival(kind, dir string, probot string) (*rival, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, "intake-server", kind, dir)
	if kind == rivalProbot {
		cmd = exec.Command("node", "probot.mjs")
		cmd.Dir, cmd.Env = probot, append(os.Environ(), "NODE_ENV=production", "WEBHOOK_SECRET="+intakeSecret)
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	r := &rival{cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		r.stop()
		return nil, fmt.Errorf("%s did not start: %w", kind, err)
	}
	r.addr = strings.TrimSpace(line)
	return r, nil
}

func (r *rival) stop() {
	_ = r.in.Close()
	_ = r.cmd.Wait()
}

// serveRival is the process of one that is written in Go.
func serveRival(ctx context.Context, kind, dir string) error {
	var handler http.Handler
	switch kind {
	case rivalFloor:
		file, err := os.OpenFile(filepath.Join(dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		handler = &floor{file: file, turn: make(chan struct{}, 1), next: &flush{done: make(chan struct{})}}
	case rivalBot:
		s, err := store.Open(ctx, filepath.Join(dir, "bot.db"))
		if err != nil {
			return err
		}
		defer s.Close()
		handler, err = webhooks.Handler(webhooks.Options{
			Secrets: []redact.Secret{redact.NewSecret(intakeSecret)}, Log: s, Clock: time.Now, Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
		})
		if err != nil {
			return err
		}
	default:
		return fmt.Errorf("no server %q", kind)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until whoever started us lets go
		_ = server.Close()
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// floor is the least that a durable intake can do: verify the signature and append to a log, with one fdatasync for all that
// came at the same time.
type floor struct {
	file *os.File
	turn chan struct{}
	mu   sync.Mutex
	next *flush
}

type flush struct {
	data []byte
	done chan struct{}
	err  error
}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhooks.MaxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if !hmac.Equal([]byte(signature(body)), []byte(r.Header.Get("X-Hub-Signature-256"))) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if err := f.append(r.Header.Get("X-GitHub-Delivery"), body); err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (f *floor) append(id string, body []byte) error {
	f.mu.Lock()
	mine := f.next
	mine.data = binary.LittleEndian.AppendUint32(mine.data, uint32(len(body)))
	mine.data = append(append(mine.data, id...), body...)
	f.mu.Unlock()
	select {
	case <-mine.done:
	case f.turn <- struct{}{}:
		f.mu.Lock()
		now := f.next
		if now == mine {
			f.next = &flush{done: make(chan struct{})}
		}
		f.mu.Unlock()
		if now == mine {
			if _, mine.err = f.file.Write(mine.data); mine.err == nil {
				mine.err = unix.Fdatasync(int(f.file.Fd()))
			}
			close(mine.done)
		}
		<-f.turn
	}
	<-mine.done
	return mine.err
}

func signature(body []byte) string {
	mac := hmac.New(sha256.New, []byte(intakeSecret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// installProbot puts probot into a directory, or says why it is not compared.
func installProbot(ctx context.Context, dir string) (missing error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("there is no %s here", tool)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "probot.mjs"), probotServer, 0o600); err != nil {
		return err
	}
	install := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir, "probot@"+probotVersion)
	if out, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("npm cannot install it: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
