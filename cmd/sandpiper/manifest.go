package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-github/v60/github"
	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/promote"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

const manifestHelp = `Hold the manifest of a pull request against the repository itself.

The manifest is in the pull request, at its end, and in the bot's store; it is an in-toto statement in a DSSE envelope.
Verified are base, tree and head, and that between base and head lie exactly the changes that it lists, with their
modes and contents. Give the pull request (OWNER/REPO#NUMBER or its address; GITHUB_TOKEN is used if it is set) or a
file with the envelope or with the text of the pull request. The repository must have the commits: fetch the branch.

Exit status: 0 all is as the manifest says, 1 something differs or cannot be read, 2 the command was called wrongly.`

func newManifestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "manifest", Short: "Verify what a pull request of the bot says about itself", Long: manifestHelp,
		Args: exactArgs(0, "one of its subcommands"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newManifestVerifyCommand())
	return cmd
}

func newManifestVerifyCommand() *cobra.Command {
	var dir, key string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "verify PR|FILE", Short: "Hold a manifest against a repository", Long: manifestHelp,
		Example: "  sandpiper manifest verify acme/calc#2 --repo ~/src/calc\n  sandpiper manifest verify manifest.json --key bot.pub",
		Args:    exactArgs(1, "a pull request or a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := verifyManifest(cmd.Context(), cmd.InOrStdin(), args[0], dir, key)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(cmd.OutOrStdout(), v)
			} else {
				v.print(cmd.OutOrStdout())
			}
			if err == nil && !v.OK {
				err = exitError{code: 1}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "repo", ".", "the repository, a clone of your own")
	cmd.Flags().StringVar(&key, "key", "", "file with the bot's public key; without it signatures are not checked")
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON")
	return cmd
}

// verdict is what came of a verification.
type verdict struct {
	OK        bool     `json:"ok"`
	Head      string   `json:"head"`
	Base      string   `json:"base"`
	Tree      string   `json:"tree"`
	Changes   int      `json:"changes"`
	Signature string   `json:"signature"` // for people
	Differs   []string `json:"differs"`
}

func (v verdict) print(w io.Writer) {
	fmt.Fprintf(w, "head       %s\nbase       %s\ntree       %s\nchanges    %d\nsignature  %s\n", v.Head, v.Base, v.Tree, v.Changes, v.Signature)
	for _, d := range v.Differs {
		fmt.Fprintln(w, "differs   ", d)
	}
	if v.OK {
		fmt.Fprintln(w, "all is as the manifest says")
	}
}

func verifyManifest(ctx context.Context, stdin io.Reader, what, dir, keyFile string) (verdict, error) {
	text, live, err := manifestOf(ctx, stdin, what)
	if err != nil {
		return verdict{}, err
	}
	if attached, ok := promote.FindEnvelope(string(text)); ok {
		text = attached
	} else if !json.Valid(text) {
		return verdict{}, errors.New("there is no manifest in " + name(what))
	}
	o, err := promote.Open(text)
	if err != nil {
		return verdict{}, err
	}
	gitDir, err := gitDirOf(dir)
	if err != nil {
		return verdict{}, err
	}
	g, err := git.New(git.Options{})
	if err != nil {
		return verdict{}, err
	}
	differs, err := o.Verify(ctx, g, gitDir)
	if err != nil {
		return verdict{}, err
	}
	v := verdict{Head: o.Head, Base: o.Base, Tree: o.Tree, Changes: len(o.Changes), Differs: append([]string{}, differs...)}
	if live != "" && live != o.Head {
		v.Differs = append(v.Differs, "the pull request's head is "+live+" by now: somebody has pushed since")
	}
	signed, err := v.sign(o, keyFile)
	v.OK = signed && len(v.Differs) == 0
	return v, err
}

// sign says what is known of the signature; false when a key is given and has not signed.
func (v *verdict) sign(o promote.Opened, keyFile string) (bool, error) {
	v.Signature = "none"
	if ids := o.KeyIDs(); len(ids) > 0 {
		v.Signature = "not checked; it names " + name(strings.Join(ids, ", "))
	}
	if keyFile == "" {
		return true, nil
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return false, err
	}
	key, err := promote.ReadPublicKey(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", keyFile, err)
	}
	if !o.SignedBy(key) {
		v.Differs = append(v.Differs, "it is not signed by the key in "+keyFile)
		return false, nil
	}
	v.Signature = "by the key in " + keyFile
	return true, nil
}

var (
	pullShort = regexp.MustCompile(`^([A-Za-z0-9-]+)/([A-Za-z0-9._-]+)#([0-9]{1,9})$`)
	pullURL   = regexp.MustCompile(`^(https?://[^/]+)/([A-Za-z0-9-]+)/([A-Za-z0-9._-]+)/pull/([0-9]{1,9})/?$`)
)

// manifestOf reads a file, or the text of a pull request with the head that it has now.
func manifestOf(ctx context.Context, stdin io.Reader, what string) (text []byte, head string, err error) {
	short, full := pullShort.FindStringSubmatch(what), pullURL.FindStringSubmatch(what)
	switch {
	case short != nil:
		return pullText(ctx, "", short[1], short[2], short[3])
	case full != nil:
		return pullText(ctx, full[1], full[2], full[3], full[4])
	case what == "-":
		text, err = io.ReadAll(io.LimitReader(stdin, 8<<20))
		return text, "", err
	}
	text, err = os.ReadFile(what)
	return text, "", err
}

// pullText reads a pull request at the GitHub of the settings. The token goes nowhere else, and the same name elsewhere is another
// pull request.
func pullText(ctx context.Context, site, owner, repo, number string) (text []byte, head string, err error) {
	c, err := config.Load(os.Environ())
	if err != nil {
		return nil, "", err
	}
	if site != "" && !strings.EqualFold(site, c.GitHubURL) {
		return nil, "", usageError(fmt.Errorf("the pull request is at %s, and the settings name %s: set SANDPIPER_GITHUB_URL=%[1]s", name(site), c.GitHubURL))
	}
	gh := github.NewClient(&http.Client{Timeout: time.Minute})
	if token := os.Getenv("GITHUB_TOKEN"); token != "" {
		gh = gh.WithAuthToken(token)
	}
	if gh.BaseURL, err = gh.BaseURL.Parse(strings.TrimSuffix(c.GitHubAPIURL, "/") + "/"); err != nil {
		return nil, "", err
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, "", err
	}
	pr, _, err := gh.PullRequests.Get(ctx, owner, repo, n)
	if err != nil {
		return nil, "", fmt.Errorf("pull request %s/%s#%d: %w", owner, repo, n, err)
	}
	return []byte(pr.GetBody()), pr.GetHead().GetSHA(), nil
}
