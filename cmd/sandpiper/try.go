package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

const tryHelp = `Do the whole main job on your own repository, with nothing leaving this machine.

The last commit of --repo is pushed to a stand-in for GitHub on loopback, the task is opened there as an issue and
labelled, and the bot does its work: sandbox, agent, checks, pull request. Your checkout and your branches are not
touched; at the end the branch of the pull request is added to your repository, and a directory with the page of the pull request,
the manifest and the logs is left to look at.

--agent is an executable file, a command that is found in the repository or on the system, or a known name (claude, codex,
opencode, gemini, copilot, pi; those ask a model, for which SANDPIPER_MODEL_… and SANDPIPER_SYSTEM_PATHS are set as for the bot;
what they ask leaves this machine). The task is on its standard input and in the file that $SANDPIPER_PROMPT_FILE names. Without
--agent and --check the repository's .github/sandpiper.yml says.

  sandpiper try --repo . --task task.md --agent ./agent.sh --check 'go test ./...'

The first line of the task is the issue's title.

Exit status: 0 there is a pull request, 3 the mission ended without one, 1 something failed, 2 called wrongly, 130 stopped by Ctrl-C.`

type tryOptions struct {
	repo, task, agent, out string
	checks                 []string
	stay                   bool
}

func newTryCommand() *cobra.Command {
	var o tryOptions
	cmd := &cobra.Command{
		Use:   "try --task FILE",
		Short: "Do the main job on your own repository, on this machine alone",
		Long:  tryHelp,
		Args:  exactArgs(0, "options only"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.repo, "repo", ".", "the repository")
	cmd.Flags().StringVar(&o.task, "task", "", "file with the task; - for standard input")
	cmd.Flags().StringVar(&o.agent, "agent", "", "what works on it: an executable file, a command, or a known name")
	cmd.Flags().StringArrayVar(&o.checks, "check", nil, "a command that judges the result, instead of the repository's own (may be repeated)")
	cmd.Flags().StringVar(&o.out, "out", "", "directory for what is left to look at (default: a new one in the temporary directory)")
	cmd.Flags().BoolVar(&o.stay, "stay", false, "keep the pages and the bot up until Ctrl-C")
	return cmd
}

func (o tryOptions) run(ctx context.Context, in io.Reader, out io.Writer) error {
	if o.task == "" {
		return usageError(errors.New("--task is needed: a file with what is to be done, or - for standard input"))
	}
	text, err := readFileOrStdin(in, o.task)
	if err != nil {
		return usageError(fmt.Errorf("task: %w", err))
	}
	title, body, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if title = strings.TrimSpace(strings.TrimLeft(title, "# ")); title == "" {
		return usageError(errors.New("the task is empty; its first line is the issue's title"))
	}
	repo, err := filepath.Abs(o.repo)
	if err != nil {
		return err
	}
	made := o.out == ""
	if made {
		if o.out, err = stageDir("sandpiper-try-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(o.out, 0o711); err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	t := &trial{o: o, repo: repo, name: repoName(repo), view: newShow(out)}
	err = t.open(ctx)
	var env []string
	if err == nil {
		env, err = t.settings(ctx)
	}
	if err != nil {
		if made { // nothing has begun, so there is nothing to look at
			os.RemoveAll(o.out)
		}
		return err
	}
	return t.run(ctx, env, issueText{title, strings.TrimSpace(body)})
}

// repoName makes a name that GitHub would take from that of a directory.
func repoName(dir string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, filepath.Base(dir))
	if strings.Trim(name, ".-") == "" {
		return "repository"
	}
	return name
}

// trial is one call of try.
type trial struct {
	o      tryOptions
	repo   string
	name   string
	view   *show
	git    *git.Git
	stores *gitstore.Stores
	head   string // the commit that is tried
	stage  *stage
}

const trialKey = "local-try" // of the one store of a trial

// open takes the last commit of the repository into a store of the trial. The repository is only read.
func (t *trial) open(ctx context.Context) error {
	g, err := git.New(git.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	t.git = g
	if t.stores, err = gitstore.Open(filepath.Join(t.o.out, "stores"), g); err != nil {
		return err
	}
	err = t.stores.Fetch(ctx, gitstore.Remote{Key: trialKey, URL: t.repo}, "+HEAD:refs/heads/main")
	switch {
	case errors.Is(err, git.ErrEmpty), errors.Is(err, git.ErrNoRef):
		return usageError(fmt.Errorf("%s has no commit yet; commit something first", t.repo))
	case errors.Is(err, git.ErrNotFound):
		return usageError(fmt.Errorf("%s is no git repository; --repo names one", t.repo))
	case err != nil:
		return err
	}
	t.head, err = t.stores.Resolve(ctx, trialKey, "refs/heads/main")
	return err
}

func (t *trial) run(ctx context.Context, env []string, text issueText) (err error) {
	ctx, stop := whileRead(ctx)
	defer stop()
	t.stage, err = setStage(ctx, t.o.out, stageOptions{repo: "you/" + t.name, doubleAddr: "127.0.0.1:0", botAddr: "127.0.0.1:0", env: env})
	defer t.stage.close()
	if err != nil {
		return err
	}
	if err := t.stores.Push(ctx, t.remote("octavia"), t.head, "main", ""); err != nil {
		return fmt.Errorf("push to the stand-in for GitHub: %w", err)
	}
	t.view.say("%s at %.7s · a GitHub of its own on %s", t.repo, t.head, t.stage.double.URL)
	if t.uncommitted(ctx) {
		t.view.say("what is not committed is not tried")
	}
	last, err := t.stage.play(ctx, t.view, "you", t.name, text)
	if ctx.Err() != nil {
		t.stage.close()
		left(t.stage.endSandboxes())
		return stopped("the logs are in " + t.o.out)
	}
	if err != nil {
		return fmt.Errorf("%w; the logs are in %s", err, t.o.out)
	}
	if err := t.leave(ctx, last); err != nil {
		return err
	}
	if t.o.stay {
		t.view.say("\npages    %s/you/%s\nboth stay up; Ctrl-C ends them", t.stage.double.URL, t.name)
		<-ctx.Done()
	}
	if last.Pull == 0 {
		return exitError{code: 3}
	}
	return nil
}

func (t *trial) remote(login string) gitstore.Remote {
	return gitstore.Remote{
		Key: trialKey, URL: fmt.Sprintf("%s/you/%s.git", t.stage.double.URL, t.name),
		Credentials: func(context.Context) (string, redact.Secret, error) {
			return login, redact.NewSecret(t.stage.double.Tokens[login]), nil
		},
	}
}

// settings are the bot's for this trial: the agent and checks of the command line go before those of the repository.
func (t *trial) settings(ctx context.Context) ([]string, error) {
	env := ofAgents(os.Environ())
	rules, err := t.policy(ctx)
	if err != nil {
		return nil, err
	}
	if t.o.agent != "" {
		delete(rules, "agent")
		file, err := t.program(ctx, t.o.agent)
		switch {
		case err != nil:
			return nil, usageError(err)
		case file != "":
			env = append(env, "SANDPIPER_AGENT="+file)
		default:
			rules["agent"] = t.o.agent
		}
	}
	if len(t.o.checks) > 0 {
		var list []map[string]any
		for i, c := range t.o.checks {
			list = append(list, map[string]any{"name": fmt.Sprintf("check %d", i+1), "run": c, "required": true})
		}
		rules["checks"] = list
	}
	text, err := yaml.Marshal(rules)
	if err != nil {
		return nil, err
	}
	if _, err := policy.Parse("what --agent and --check make of "+policy.Path, text); err != nil {
		return nil, usageError(err)
	}
	file := filepath.Join(t.o.out, "policy.yml")
	return append(env, "SANDPIPER_POLICY_FILE="+file), os.WriteFile(file, text, 0o600)
}

// policy is the repository's own, as its file has it.
func (t *trial) policy(ctx context.Context) (map[string]any, error) {
	rules := map[string]any{}
	text, err := t.stores.Read(ctx, trialKey, git.Call{Args: []string{"cat-file", "blob", t.head + ":" + policy.Path}})
	if err != nil {
		return rules, nil // there is none
	}
	if _, err := policy.Parse(policy.Path, text); err != nil {
		return nil, err
	}
	return rules, yaml.Unmarshal(text, &rules)
}

// leave puts the branch into the user's repository, and what there is to read into the output directory.
func (t *trial) leave(ctx context.Context, last logLine) error {
	t.view.say("")
	if last.Pull != 0 {
		branch, err := t.bringBack(ctx, last)
		if err != nil {
			return err
		}
		t.view.say("branch   git -C %s show %s", t.repo, branch)
		page := filepath.Join(t.o.out, "pull-request.html")
		if err := download(ctx, fmt.Sprintf("%s/you/%s/pull/%d", t.stage.double.URL, t.name, last.Pull), page); err != nil {
			return err
		}
		t.view.say("page     %s", page)
	}
	for _, f := range []string{"state/archive/" + last.Run + "/exec/agent/log", "bot.log", "github.log"} {
		if file := filepath.Join(t.o.out, f); exists(file) {
			t.view.say("log      %s", file)
		}
	}
	return nil
}

// bringBack adds the branch of the pull request to the user's repository, where nothing had its name, and keeps the manifest.
func (t *trial) bringBack(ctx context.Context, last logLine) (string, error) {
	db, err := store.Open(ctx, filepath.Join(t.o.out, "state", "sandpiper.db"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	p, err := db.Promotion(ctx, last.Run)
	if err != nil {
		return "", err
	}
	manifest := filepath.Join(t.o.out, "manifest.json")
	if err := os.WriteFile(manifest, []byte(p.Manifest+"\n"), 0o600); err != nil {
		return "", err
	}
	t.view.say("manifest %s", manifest)
	if err := t.stores.Fetch(ctx, t.remote("octavia"), "+refs/heads/"+p.Branch+":refs/heads/"+p.Branch); err != nil {
		return "", err
	}
	// A trial before this one may have left a branch of the same name.
	branch := p.Branch
	for n := 2; ; n++ {
		err := landIn(ctx, t.git, t.repo, t.stores.Dir(trialKey), "refs/heads/"+p.Branch, p.Commit, branch)
		var taken exitError
		if !errors.As(err, &taken) || taken.code != branchTaken || n > 100 {
			return branch, err
		}
		branch = fmt.Sprintf("%s.%d", p.Branch, n)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func download(ctx context.Context, url, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return os.WriteFile(file, text, 0o600)
}
