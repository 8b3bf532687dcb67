package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	sandpiper "github.com/sandpiper-bot/sandpiper"
	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

// doubleReady is the one line that the double prints when it listens: all that another process needs to use it. Its
// credentials are of this double alone and die with it.
type doubleReady struct {
	URL    string            `json:"url"`
	AppID  int64             `json:"app_id"`
	Key    string            `json:"key"`
	Tokens map[string]string `json:"tokens"` // of people, by login
}

type doubleOptions struct {
	addr, dir, repo, hook, secret string
	seed                          string // a directory that becomes the first commit; empty: no commits
}

// newDoubleCommand runs the stand-in for GitHub as a process of its own, for demo and try. It is hidden because it is of
// no use alone.
func newDoubleCommand() *cobra.Command {
	var o doubleOptions
	cmd := &cobra.Command{
		Use:    "double",
		Short:  "Run the stand-in for GitHub that demo and try use",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			return o.serve(cmd.Context(), cmd.OutOrStdout(), log)
		},
	}
	cmd.Flags().StringVar(&o.addr, "addr", "127.0.0.1:0", "address to listen on")
	cmd.Flags().StringVar(&o.dir, "dir", "", "directory for its repositories")
	cmd.Flags().StringVar(&o.repo, "repo", "acme/calc", "the repository to make")
	cmd.Flags().StringVar(&o.seed, "seed", "", "directory with the files of the first commit")
	cmd.Flags().StringVar(&o.hook, "hook", "", "address of the bot's webhook")
	return cmd
}

func (o doubleOptions) serve(ctx context.Context, out io.Writer, log *slog.Logger) error {
	o.secret = os.Getenv("SANDPIPER_DOUBLE_SECRET") // not a flag: command lines can be read by everybody
	server, err := github.New(github.Options{Dir: o.dir, Log: log})
	if err != nil {
		return err
	}
	if err := server.Start(o.addr); err != nil {
		return err
	}
	ready, err := o.populate(server)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return errors.Join(err, server.Close())
	}
	<-ctx.Done()
	return server.Close()
}

// populate makes an organisation with two people who may write and one who may read only, and the App as app.yml describes it.
func (o doubleOptions) populate(s *github.Server) (doubleReady, error) {
	owner, _, ok := strings.Cut(o.repo, "/")
	if !ok {
		return doubleReady{}, usageError(errors.New("--repo is owner/name"))
	}
	for _, login := range []string{"olga", "octavia", "rita", "walt"} {
		if _, err := s.AddUser(login); err != nil {
			return doubleReady{}, err
		}
	}
	if _, err := s.AddOrg(owner, "olga"); err != nil {
		return doubleReady{}, err
	}
	if _, err := s.AddRepo(o.repo, github.RepoOptions{Public: true, Dir: o.seed, Author: "octavia"}); err != nil {
		return doubleReady{}, err
	}
	var manifest struct {
		Name        string            `yaml:"name"`
		Permissions map[string]string `yaml:"default_permissions"`
		Events      []string          `yaml:"default_events"`
	}
	if err := yaml.Unmarshal(sandpiper.AppManifest, &manifest); err != nil {
		return doubleReady{}, fmt.Errorf("app.yml: %w", err)
	}
	app, err := s.AddApp(github.AppOptions{
		Owner: owner, Name: manifest.Name, Permissions: manifest.Permissions, Events: manifest.Events, HookURL: o.hook, HookSecret: o.secret,
	})
	if err != nil {
		return doubleReady{}, err
	}
	if _, err := s.Install(app.Slug, owner, o.repo); err != nil {
		return doubleReady{}, err
	}
	ready := doubleReady{URL: s.URL(), AppID: app.ID, Key: string(app.PrivateKeyPEM()), Tokens: map[string]string{}}
	write, _ := github.ParseRole("write")
	for _, login := range []string{"octavia", "rita", "walt"} {
		if login != "walt" {
			err = s.SetRole(o.repo, login, write)
		}
		if err != nil {
			return ready, err
		}
		if ready.Tokens[login], err = s.PersonalToken(login); err != nil {
			return ready, fmt.Errorf("token of %s: %w", login, err)
		}
	}
	return ready, nil
}
