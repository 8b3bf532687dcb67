package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// botProcess is a running `sandpiper serve`.
type botProcess struct {
	cmd  *exec.Cmd
	log  string // file
	done chan struct{}
	once sync.Once
}

// startBot starts the bot beside a crowd and waits until it takes deliveries and its boundary is proven.
func startBot(ctx context.Context, tool, dir string, w *crowd) (*botProcess, error) {
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	key := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(key, w.app.PrivateKeyPEM(), 0o600); err != nil {
		return nil, err
	}
	b := &botProcess{log: filepath.Join(dir, "bot.log"), done: make(chan struct{})}
	out, err := os.Create(b.log)
	if err != nil {
		return nil, err
	}
	w.target = "http://" + listen + "/webhook"
	b.cmd = exec.Command(tool, "serve")
	b.cmd.Stderr = out
	b.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "SANDPIPER_STATE_DIR=" + filepath.Join(dir, "state"), "SANDPIPER_LISTEN=" + listen,
		"SANDPIPER_OPS_LISTEN=127.0.0.1:0", "SANDPIPER_GITHUB_URL=" + w.url, "SANDPIPER_GITHUB_API_URL=" + w.url, fmt.Sprintf("SANDPIPER_APP_ID=%d", w.app.ID),
		"SANDPIPER_PRIVATE_KEY_FILE=" + key, "SANDPIPER_WEBHOOK_SECRETS=" + crowdSecret, "SANDPIPER_WRITE_PACE=0s", "SANDPIPER_LOG_FORMAT=json",
		"SANDPIPER_SWEEP_EVERY=1h",
	}
	if err := b.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", tool, err), out.Close())
	}
	go func() {
		defer close(b.done)
		_ = b.cmd.Wait()
		_ = out.Close()
	}()
	return b, b.awaitReady(ctx, w.client, "http://"+listen+"/readyz")
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (b *botProcess) awaitReady(ctx context.Context, client *http.Client, url string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if answer, err := client.Do(request); err == nil {
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ticker.C:
		case <-b.done:
			return fmt.Errorf("the bot did not start:\n%s", b.tail())
		case <-ctx.Done():
			return fmt.Errorf("the bot is not ready: %w", context.Cause(ctx))
		}
	}
}

// peakMemory is the most that the process has had resident, in bytes; 0 where the system does not tell.
func (b *botProcess) peakMemory() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// stop ends the bot as a service manager does, and after a while for good.
func (b *botProcess) stop() {
	b.once.Do(func() {
		_ = b.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(time.Minute)
		defer timer.Stop()
		select {
		case <-b.done:
		case <-timer.C:
			_ = b.cmd.Process.Kill()
			<-b.done
		}
	})
}

func (b *botProcess) tail() string {
	text, _ := os.ReadFile(b.log)
	return string(text[max(len(text)-4000, 0):])
}
