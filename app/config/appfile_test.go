package config

import (
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAppOfTheStateDirectory is taken where the environment names none, and the environment's key and secrets go before its own:
// that is how they are rotated.
func TestAppOfTheStateDirectory(t *testing.T) {
	t.Parallel()
	key := func(name string) string {
		return strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: name, Bytes: []byte(name)})))
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := SaveApp(dir, App{ID: 7, PrivateKey: key("MADE") + "\n", WebhookSecret: "the secret that was made"}); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		environ     []string
		id          int64
		key, secret string
		origin      string // of the secrets
	}{
		"nothing set": {nil, 7, key("MADE"), "the secret that was made", "app.json"},
		"newer key and secrets": {[]string{"SANDPIPER_PRIVATE_KEY=" + key("NEWER"), "SANDPIPER_WEBHOOK_SECRETS=a newer secret of it,the secret that was made"},
			7, key("NEWER"), "a newer secret of it", "environment"},
		"another App": {[]string{"SANDPIPER_APP_ID=8"}, 8, "", "", "default"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			c, err := Load(append(tt.environ, "SANDPIPER_STATE_DIR="+dir))
			if err != nil {
				t.Fatal(err)
			}
			secret := ""
			if len(c.WebhookSecrets) > 0 {
				secret = c.WebhookSecrets[0].Reveal()
			}
			if c.AppID != tt.id || c.PrivateKey.Reveal() != tt.key || secret != tt.secret {
				t.Errorf("App %d with %q and %q", c.AppID, c.PrivateKey.Reveal(), secret)
			}
			for _, s := range c.Describe() {
				if s.Name == "SANDPIPER_WEBHOOK_SECRETS" && s.Origin != tt.origin {
					t.Errorf("the secrets come from %q, want %q", s.Origin, tt.origin)
				}
				if strings.Contains(s.Value, "the secret that was made") || strings.Contains(s.Value, "PRIVATE") {
					t.Errorf("%s is shown: %s", s.Name, s.Value)
				}
			}
		})
	}
}

func TestAppThatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(AppFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load([]string{"SANDPIPER_STATE_DIR=" + dir})
	var bad *Error
	if !errors.As(err, &bad) || !strings.Contains(bad.Error(), "app.json") {
		t.Errorf("got %v", err)
	}
}
