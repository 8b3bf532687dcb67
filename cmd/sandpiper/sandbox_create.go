package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

const createHelp = `Make a sandbox on a repository and print its id.

--repo is a directory on this machine or an http(s) address that needs no credential. --base is a branch, a tag, HEAD or a commit
of it, looked up there now and pinned. The repository is fetched into a store; its checkout and configuration are not used.

Limits, each with --limit NAME=N; the defaults are those of the settings, see 'sandpiper doctor':
  procs    processes and threads at once
  memory   bytes of memory of all of them; units K, M, G
  disk     bytes that the files may grow by
  output   bytes that one command may write
  files    files that may be added
  wall     time that one command may take; units s, m, h`

func newSandboxCreate() *cobra.Command {
	var repo, base string
	var mission string
	var o sandbox.Options
	var limits []string
	var shallow bool
	cmd := &cobra.Command{
		Use:   "create --repo DIR|URL",
		Short: "Make a sandbox on a repository and print its id",
		Long:  createHelp,
		Example: "  sandpiper sandbox create --repo . --base main\n" +
			"  sandpiper sandbox create --repo https://example.com/a/b.git --limit memory=2G --limit wall=20m",
		Args: exactArgs(0, "no arguments, only flags"),
	}
	asJSON := jsonFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&repo, "repo", "", "the repository: a directory or an http(s) address")
	f.StringVar(&base, "base", "HEAD", "a branch, tag or commit of it")
	f.StringVar(&o.Backend, "backend", "", "what provides the sandbox (default: SANDPIPER_BACKEND)")
	f.BoolVar(&shallow, "shallow", false, "the first time that an address is fetched, leave its history out")
	f.StringVar(&mission, "mission", "", "the mission that it belongs to, for the record")
	f.StringArrayVar(&limits, "limit", nil, "a limit, NAME=N; may be given several times")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if o.Limits, err = parseLimits(limits); err != nil {
			return usageError(err)
		}
		if repo == "" {
			return usageError(errors.New("create: --repo is missing: a directory or an http(s) address"))
		}
		remote, err := remoteOf(repo)
		if err != nil {
			return usageError(err)
		}
		remote.Shallow = shallow
		s, err := openRecorded(os.Environ())
		if err != nil {
			return err
		}
		defer s.journal.close()
		id, err := s.create(showProgress(cmd), mission, remote, base, o)
		if err != nil {
			return sandboxError(err)
		}
		if *asJSON {
			rec, err := s.Record(id)
			if err != nil {
				return err
			}
			return writeJSON(cmd.OutOrStdout(), rec)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
		return err
	}
	return cmd
}

// showProgress tells a person at a terminal how far a fetch is.
func showProgress(cmd *cobra.Command) context.Context {
	if !isTerminal(os.Stderr) {
		return cmd.Context()
	}
	return gitstore.WithProgress(cmd.Context(), func(p gitstore.Progress) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d%% (%s)\n", p.Phase, p.Percent, p.Detail)
	})
}

func (s *sandboxes) create(ctx context.Context, mission string, remote gitstore.Remote, base string, o sandbox.Options) (sandbox.ID, error) {
	commit, from, err := s.stores.FetchCommit(ctx, remote, base)
	if err != nil {
		return "", fmt.Errorf("base %s of %s: %w", name(base), remote.URL, err)
	}
	return s.Create(ctx, mission, sandbox.Source{Key: remote.Key, URL: remote.URL, Base: commit, From: from}, o)
}

// remoteOf says where a repository is that a person named, and which store is its own.
func remoteOf(repo string) (gitstore.Remote, error) {
	if u, err := url.Parse(repo); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		if u.User != nil {
			return gitstore.Remote{}, errors.New("the address holds a credential: it would end up in records; leave it away")
		}
		return gitstore.Remote{Key: localKey(repo), URL: repo}, nil
	}
	if strings.Contains(repo, "://") {
		return gitstore.Remote{}, fmt.Errorf("repository %s: only directories and http(s) addresses can be used", name(repo))
	}
	dir, err := filepath.Abs(repo)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return gitstore.Remote{}, fmt.Errorf("repository %s: no such directory", name(repo))
	}
	return gitstore.Remote{Key: localKey(dir), URL: dir}, nil
}

// localKey is the key of the store of a repository that has no id at GitHub.
func localKey(where string) string {
	sum := sha256.Sum256([]byte(where))
	return "local-" + hex.EncodeToString(sum[:])[:12]
}

// parseLimits reads NAME=N.
func parseLimits(words []string) (sandbox.Limits, error) {
	var l sandbox.Limits
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok {
			return l, fmt.Errorf("limit %q: not NAME=N", word)
		}
		var err error
		switch key {
		case "procs":
			l.Procs, err = positive(value)
		case "files":
			l.Files, err = positive(value)
		case "memory":
			l.Memory, err = size(value)
		case "disk":
			l.Disk, err = size(value)
		case "output":
			l.Output, err = size(value)
		case "wall":
			if l.Wall, err = time.ParseDuration(value); err == nil && l.Wall <= 0 {
				err = errors.New("must be more than 0")
			}
		default:
			return l, fmt.Errorf("limit %q: there are procs, memory, disk, output, files and wall", key)
		}
		if err != nil {
			return l, fmt.Errorf("limit %s=%s: %w", key, name(value), err)
		}
	}
	return l, nil
}

func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n <= 0 {
		return 0, errors.New("not a whole number above 0")
	}
	return n, nil
}

// size reads a number of bytes: 1048576, 1024K, 1M, 1MiB are the same.
func size(s string) (int64, error) {
	number := strings.TrimRight(strings.ToUpper(s), "IB")
	shift := 0
	if i := strings.IndexAny(number, "KMGT"); i >= 0 && i == len(number)-1 {
		shift = 10 * (1 + strings.IndexByte("KMGT", number[i]))
		number = number[:i]
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)>>shift {
		return 0, errors.New("not a size such as 500M or 2G")
	}
	return n << shift, nil
}
