// Package agentgit brings commits that were made in a sandbox into the store, as data.
//
// The git directory that holds them was written by the sandbox, and its configuration, hooks, attributes and links are never
// looked at: no git runs in it. Objects and the values of refs are copied into a quarantine, a repository with nothing but our own
// settings, and fetched from there into the store with all checks that git has (transfer.fsckObjects): names such as .git in trees,
// submodules that are options (CVE-2018-17456), objects that are not what their name says. What fails is left out and told.
//
// The package must not decide what the commits are good for. Their authors are claims of the sandbox.
package agentgit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// Store is the repository that the commits come into.
type Store interface {
	Dir(key string) string
	Run(ctx context.Context, key string, c git.Call) ([]byte, error)
	Read(ctx context.Context, key string, c git.Call) ([]byte, error)
}

// Options of Import.
type Options struct {
	Store   Store
	Key     string
	Base    string // the commit that the sandbox started from
	Dir     string // the git directory that the sandbox has written; nothing may write in it now
	Scratch string // an existing directory for the quarantine, which is removed again
	Ref     string // the refs in the store: <Ref>/head, <Ref>/1 ...
}

// Commit is one commit of a sandbox. All of it but the ids is what the sandbox says.
type Commit struct {
	ID      string    `json:"id"`
	Tree    string    `json:"tree"`
	Parents []string  `json:"parents"`
	Author  string    `json:"author"`
	Email   string    `json:"email"`
	When    time.Time `json:"when"`
	Message string    `json:"message"` // UTF-8 is not certain
}

// Tip is a branch, tag or stash of the sandbox, other than where its HEAD is.
type Tip struct {
	Name   string `json:"name"` // as the sandbox calls it
	Commit string `json:"commit"`
	Ref    string `json:"ref"` // in the store
}

// History is what was brought in.
type History struct {
	Head    string   `json:"head"`              // where HEAD is: the base when the sandbox made no commit, or none that could be taken
	Commits []Commit `json:"commits"`           // from the base to the head, oldest first
	Tips    []Tip    `json:"tips,omitempty"`    // other places where commits are
	Refused []string `json:"refused,omitempty"` // what was left out, and why
}

// Bounds of what is taken. A sandbox has its own limit of bytes; these are for the time that it takes to check them.
const (
	mostObjects = 200_000 // files
	mostBytes   = 2 << 30 // as stored, deflated
	mostTips    = 32
	mostCommits = 1000
	mostPacks   = 256              // a process for each
	mostRefused = 20               // that are named
	patience    = 10 * time.Minute // for one git command; a delta chain or a deflated bomb can take any time
)

// Import brings the commits in. What it brought in before it finds again. The error is for what is wrong on our side.
func Import(ctx context.Context, o Options) (History, error) {
	h, err := bringIn(ctx, o)
	if more := len(h.Refused) - mostRefused; more > 0 {
		h.Refused = append(h.Refused[:mostRefused], fmt.Sprintf("and %d more", more))
	}
	return h, err
}

func bringIn(ctx context.Context, o Options) (History, error) {
	h := History{Head: o.Base, Commits: []Commit{}}
	root, err := os.OpenRoot(o.Dir)
	if err != nil {
		return h, fmt.Errorf("git directory of the sandbox: %w", err)
	}
	defer root.Close()
	q := &quarantine{Options: o, from: root, h: &h}
	tips, err := readTips(root, o.Base)
	if err != nil { // written by the sandbox: nothing that is wrong with it is our failure
		h.Refused = append(h.Refused, err.Error())
		return h, nil
	}
	if len(tips) == 0 {
		return h, nil
	}
	if q.dir, err = os.MkdirTemp(o.Scratch, "quarantine-"); err != nil {
		return h, err
	}
	defer os.RemoveAll(q.dir)
	if err := q.fill(ctx); err != nil {
		return h, err
	}
	for i, t := range tips {
		if err := q.take(ctx, i, t); err != nil {
			return h, err
		}
	}
	if h.Head == o.Base {
		return h, nil
	}
	h.Commits, err = commits(ctx, o, h.Head)
	if len(h.Commits) == mostCommits {
		h.Refused = append(h.Refused, fmt.Sprintf("only the newest %d commits are listed", mostCommits))
	}
	return h, err
}

// take fetches one tip from the quarantine.
func (q *quarantine) take(ctx context.Context, i int, t tip) error {
	name := "refs/heads/" + strconv.Itoa(i)
	if err := os.WriteFile(filepath.Join(q.dir, name), []byte(t.commit+"\n"), 0o600); err != nil {
		return err
	}
	to := q.Ref + "/" + strconv.Itoa(i)
	if t.head {
		to = q.Ref + "/head"
	}
	_, err := q.Store.Run(ctx, q.Key, git.Call{Transport: git.Local, Timeout: patience,
		// Any number of objects goes through index-pack --strict: nothing is in the store before all of it has been looked at.
		Config: []string{"transfer.fsckObjects=true", "fetch.unpackLimit=1"},
		Args: []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules",
			"--refmap=", "--force", "--", q.dir, "+" + name + ":" + to}})
	if err != nil {
		return q.refuse(ctx, t.name, err)
	}
	kind, err := q.Store.Read(ctx, q.Key, git.Call{Args: []string{"cat-file", "-t", to}})
	if err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(string(kind)) != "commit":
		q.h.Refused = append(q.h.Refused, fmt.Sprintf("%q is a %.20s and no commit", t.name, kind))
		_, err = q.Store.Run(ctx, q.Key, git.Call{Args: []string{"update-ref", "-d", to}})
	case t.head:
		q.h.Head = t.commit
	default:
		q.h.Tips = append(q.h.Tips, Tip{Name: t.name, Commit: t.commit, Ref: to})
	}
	return err
}

// refuse notes what git did not take. A context that ended, or a store that is in use, says nothing of the sandbox.
func (q *quarantine) refuse(ctx context.Context, what string, err error) error {
	var failed *git.Error
	if ctx.Err() != nil || errors.Is(err, git.ErrLocked) || !errors.As(err, &failed) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	reason := err.Error()
	if failed != nil {
		reason = failed.Reason()
	}
	q.h.Refused = append(q.h.Refused, fmt.Sprintf("%q: %.1000s", what, reason))
	return nil
}

// commits lists what the sandbox added on the way from the base to its head, oldest first.
func commits(ctx context.Context, o Options, head string) ([]Commit, error) {
	// fsck let no commit in that has a NUL in it, so that fields can end with one.
	out, err := o.Store.Read(ctx, o.Key, git.Call{Args: []string{"log", "-z", "--reverse", "--topo-order", "--no-color", "--no-show-signature",
		"--no-notes", "--encoding=UTF-8", "--max-count=" + strconv.Itoa(mostCommits), "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%at%x00%B",
		o.Base + ".." + head}})
	if err != nil {
		return nil, fmt.Errorf("commits of the sandbox: %w", err)
	}
	list := []Commit{}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for ; len(fields) >= 7; fields = fields[7:] {
		seconds, err := strconv.ParseInt(fields[5], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("commit %s: time %q: %w", fields[0], fields[5], err)
		}
		list = append(list, Commit{ID: fields[0], Tree: fields[1], Parents: strings.Fields(fields[2]), Author: fields[3], Email: fields[4],
			When: time.Unix(seconds, 0).UTC(), Message: strings.TrimRight(fields[6], "\n")})
	}
	return list, nil
}
