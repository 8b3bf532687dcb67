package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// App is an App that `sandpiper setup` has made: what the settings would say of it. It is written once, below the state
// directory, readable by the bot's user alone.
type App struct {
	ID            int64  `json:"id"`
	Name          string `json:"name"` // for people
	URL           string `json:"url"`  // its page at GitHub
	PrivateKey    string `json:"private_key"`
	WebhookSecret string `json:"webhook_secret"`
}

// AppFile is where the App of a state directory is kept.
func AppFile(stateDir string) string { return filepath.Join(stateDir, "app.json") }

// SaveApp keeps an App. One that is there is never written over: its key is nowhere else. All of it is there, or nothing.
func SaveApp(stateDir string, a App) error {
	file := AppFile(stateDir)
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return fmt.Errorf("app: %w", err)
	}
	if err := os.MkdirAll(stateDir, 0o711); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	fresh, err := os.CreateTemp(stateDir, "app.json-") // 0600, by its contract
	if err != nil {
		return fmt.Errorf("app: %w", err)
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.Write(text)
	if err := errors.Join(err, fresh.Sync(), fresh.Close()); err != nil {
		return fmt.Errorf("app: %w", err)
	}
	if err := os.Link(fresh.Name(), file); err != nil { // unlike a rename it replaces nothing
		return fmt.Errorf("app: %w", err)
	}
	dir, err := os.Open(stateDir)
	if err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// readApp takes from the state directory what the environment does not say. An App of the environment is another one, and
// then nothing is taken.
func (c *Config) readApp(found *problems) {
	if c.AppID != 0 || c.StateDir == "" {
		return
	}
	text, err := os.ReadFile(AppFile(c.StateDir))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var app App
	if err == nil {
		err = json.Unmarshal(text, &app)
	}
	if err != nil {
		found.add("SANDPIPER_APP_ID", "the App of the state directory cannot be read: "+err.Error(), "give "+AppFile(c.StateDir)+" to the bot's user, or put it back from a backup")
		return
	}
	c.AppID, c.origin["SANDPIPER_APP_ID"] = app.ID, "app.json"
	if c.PrivateKey.IsZero() {
		c.PrivateKey, c.origin["SANDPIPER_PRIVATE_KEY"] = redact.NewSecret(strings.TrimSpace(app.PrivateKey)), "app.json"
	}
	if len(c.WebhookSecrets) == 0 {
		c.WebhookSecrets, c.origin["SANDPIPER_WEBHOOK_SECRETS"] = []redact.Secret{redact.NewSecret(app.WebhookSecret)}, "app.json"
	}
}
