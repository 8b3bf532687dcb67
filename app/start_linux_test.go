package app

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/config"
)

// TestStartOnADatabaseThatIsReadOnly is refused: the bot would answer each delivery with an error.
func TestStartOnADatabaseThatIsReadOnly(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c, err := config.Load([]string{
		"HOME=" + dir, "SANDPIPER_STATE_DIR=" + dir, "SANDPIPER_LISTEN=127.0.0.1:0", "SANDPIPER_APP_ID=1", "SANDPIPER_WEBHOOK_SECRETS=" + rand.Text(),
		"SANDPIPER_PRIVATE_KEY=" + string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
	})
	if err != nil {
		t.Fatal(err)
	}
	start := func() error {
		a, err := New(t.Context(), c, Options{Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = a.Close()
		}
		return err
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "sandpiper.db")
	if os.Geteuid() != 0 {
		err = os.Chmod(file, 0o400)
	} else if err = syscall.Mount(file, file, "", syscall.MS_BIND, ""); err == nil { // no mode keeps root from writing
		t.Cleanup(func() { syscall.Unmount(file, syscall.MNT_DETACH) })
		err = syscall.Mount("", file, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	if err != nil {
		t.Skipf("the file cannot be made read-only here: %v", err)
	}
	if err := start(); err == nil || !strings.Contains(err.Error(), "readonly database") || !strings.Contains(err.Error(), "file system is mounted") {
		t.Errorf("it started: %v", err)
	}
}
