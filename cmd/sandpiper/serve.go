package main

import (
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/config"
)

const serveHelp = `Run the bot: take webhooks, move missions, open pull requests.

All settings come from the environment; 'sandpiper doctor' lists them with their origin and says what is missing.
GitHub delivers to PUBLIC_URL/webhook. /healthz says that the process is up, /readyz that it can work.

The bot stops on SIGTERM or SIGINT: requests in flight are answered, steps under way are finished or parked, and agents
go on under their supervisors. The next start finds them. A second signal ends it at once.

Exit status: 0 it was stopped, 1 it failed, 2 a setting is wrong or missing: to start it again would not help.`

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the bot",
		Long:  serveHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig()
			if err != nil {
				return err
			}
			log := newLogger(cmd.ErrOrStderr(), c)
			for _, w := range c.Warnings() {
				log.Warn("setting", "problem", w.String())
			}
			a, err := app.New(cmd.Context(), c, app.Options{Log: log})
			if errors.As(err, new(*config.Error)) {
				return usageError(err)
			}
			if err != nil {
				return err
			}
			return errors.Join(a.Run(cmd.Context()), a.Close())
		},
	}
}

// loadConfig reads the settings; what is wrong with them is the caller's mistake, not the bot's.
func loadConfig() (*config.Config, error) {
	c, err := config.Load(os.Environ())
	if err != nil {
		return nil, usageError(err)
	}
	return c, nil
}

func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
