package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// record is the database of the settings with its audit log.
type record struct {
	config *config.Config
	store  *store.Store
	audit  *audit.Log
}

// openRecord opens the bot's database, which may be in use by the bot. It makes none: an empty one would say that nothing was seen.
func openRecord(ctx context.Context, environ []string) (*record, error) {
	c, err := config.Load(environ)
	if err != nil {
		return nil, usageError(err)
	}
	if file := c.Database(); !store.IsPostgres(file) {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("there is no database of a bot (SANDPIPER_STATE_DIR is %s): %w", c.StateDir, err)
		}
	}
	return openRecordOf(ctx, c)
}

func openRecordOf(ctx context.Context, c *config.Config) (*record, error) {
	if err := os.MkdirAll(c.StateDir, 0o711); err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, c.Database())
	if err != nil {
		return nil, err
	}
	secrets := redact.New()
	for _, secret := range c.Secrets() {
		secrets.Add(secret)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return &record{c, s, audit.New(audit.Options{Chain: s, Dir: app.AuditDir(c.StateDir), Redact: secrets.String, Log: log})}, nil
}

func (r *record) close() { r.store.Close() }
