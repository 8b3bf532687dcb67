package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper"
	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/app/setup"
)

const setupHelp = `Make the GitHub App of this bot, with its permissions, events, key and webhook secret.

It prints an address: open it in a browser, press the button, and confirm at GitHub. Id, key and secret are then kept in the
state directory (app.json, for the bot's user alone), where 'sandpiper serve' finds them, and the command ends.

The address is on SANDPIPER_LISTEN, which is this machine's own by default: from elsewhere, reach it by
ssh -L 7081:127.0.0.1:7081 HOST. With --public it is SANDPIPER_PUBLIC_URL, for a machine behind its proxy already.
SANDPIPER_PUBLIC_URL must be set in any case: deliveries go to /webhook there.

Exit status: 0 the App is made, 1 it is not, 2 the command was called wrongly or a setting is missing.`

func newSetupCommand() *cobra.Command {
	var org string
	var public bool
	cmd := &cobra.Command{
		Use: "setup", Short: "Make the GitHub App of this bot", Long: setupHelp, Args: exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig()
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", c.Listen)
			if err != nil {
				return fmt.Errorf("listen: %w (does the bot run already?)", err)
			}
			defer listener.Close()
			made := make(chan config.App, 1)
			creation := setup.Creation{
				Config: c, Manifest: sandpiper.AppManifest, Org: org, Browser: "http://" + listener.Addr().String(),
				Made: func(a config.App) { made <- a },
			}
			if public {
				creation.Browser = c.PublicURL
			}
			address, page, err := creation.Open()
			if errors.As(err, new(*config.Error)) {
				return usageError(err)
			}
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "open     %s\n", address)
			app, err := serveUntil(cmd.Context(), listener, page, made)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "made     App %s (%d), kept in %s\ninstall  %s/installations/new\nthen     sandpiper doctor && sandpiper serve\n", app.Name, app.ID, config.AppFile(c.StateDir), app.URL)
			return nil
		},
	}
	cmd.Flags().StringVar(&org, "org", "", "the organisation whose App it becomes (default: your own account)")
	cmd.Flags().BoolVar(&public, "public", false, "open the page at SANDPIPER_PUBLIC_URL")
	return cmd
}

// serveUntil serves until the App is made and the browser has its answer.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler, made <-chan config.App) (app config.App, err error) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case app = <-made:
	case <-ctx.Done():
		err = errors.New("no App was made")
	case err := <-served:
		return app, err
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute) // GitHub may be about to hand over the key
	defer cancel()
	shut := server.Shutdown(stop)
	<-served
	select {
	case app = <-made: // while we were being stopped
		err = nil
	default:
	}
	return app, errors.Join(err, shut)
}
