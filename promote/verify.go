package promote

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

var objectForm = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Claim is what a manifest says, as far as a repository can be held against it.
type Claim struct {
	Mission    string `json:"mission"`
	Run        string `json:"run"`
	Repository int64  `json:"repository"`
	MergeBase  string `json:"merge_base"`
	Base       string `json:"base"`
	Tree       string `json:"tree"`
	Head       string `json:"head"`
	Commits    []struct {
		Tree string `json:"tree"`
	} `json:"commits"`
	Changes []struct {
		Path    string `json:"path"`
		RawPath []byte `json:"path_base64"`
		From    string `json:"from"`
		RawFrom []byte `json:"from_base64"`
		OldMode string `json:"old_mode"`
		NewMode string `json:"new_mode"`
		OldID   string `json:"old_id"`
		NewID   string `json:"new_id"`
	} `json:"changes"`
}

// Opened is an envelope that was read. Nothing of it has been held against a repository yet.
type Opened struct {
	Claim
	payload    []byte
	signatures []Signature
}

// Open reads an envelope and checks its form.
func Open(text []byte) (Opened, error) {
	var e Envelope
	if err := json.Unmarshal(text, &e); err != nil {
		return Opened{}, fmt.Errorf("envelope: %w", err)
	}
	if e.PayloadType != payloadType {
		return Opened{}, fmt.Errorf("the envelope holds %q, not an in-toto statement", e.PayloadType)
	}
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	if err != nil {
		return Opened{}, fmt.Errorf("envelope: %w", err)
	}
	var s struct {
		Type          string `json:"_type"`
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Name   string            `json:"name"`
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		Predicate Claim `json:"predicate"`
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		return Opened{}, fmt.Errorf("statement: %w", err)
	}
	if s.Type != StatementType || s.PredicateType != PredicateType {
		return Opened{}, fmt.Errorf("the statement is a %q of type %q, not a manifest of this project", s.PredicateType, s.Type)
	}
	digests := map[string]string{}
	for _, sub := range s.Subject {
		for kind, value := range sub.Digest {
			digests[kind] = value
		}
	}
	if digests["gitCommit"] != s.Predicate.Head || digests["gitTree"] != s.Predicate.Tree || s.Predicate.Head == "" {
		return Opened{}, errors.New("the statement is about another commit than its manifest")
	}
	return Opened{Claim: s.Predicate, payload: payload, signatures: e.Signatures}, nil
}

// SignedBy says whether the key has signed it.
func (o Opened) SignedBy(key ed25519.PublicKey) bool {
	return slices.ContainsFunc(o.signatures, func(s Signature) bool {
		sig, err := base64.StdEncoding.DecodeString(s.Sig)
		return err == nil && ed25519.Verify(key, preAuthentication(o.payload), sig)
	})
}

// KeyIDs are the keys that the signatures name, which proves nothing.
func (o Opened) KeyIDs() (ids []string) {
	for _, s := range o.signatures {
		ids = append(ids, s.KeyID)
	}
	return ids
}

// Verify holds the claim against a repository: that the head has the tree, stands on the base, and that between the two lie
// exactly the changes that are listed, with their modes and contents. It gives what differs; none: it is as it says.
func (c Claim) Verify(ctx context.Context, g *git.Git, gitDir string) (differs []string, err error) {
	run := func(args ...string) (string, error) {
		out, err := g.Run(ctx, git.Call{GitDir: gitDir, Args: args})
		return strings.TrimSpace(string(out)), err
	}
	for _, id := range []string{c.MergeBase, c.Base, c.Tree, c.Head} {
		if !objectForm.MatchString(id) {
			return nil, fmt.Errorf("%q in the manifest is no object id", id)
		}
		if _, err := run("cat-file", "-e", id); err != nil {
			return nil, fmt.Errorf("the repository does not have %s: fetch the pull request's branch first", id)
		}
	}
	tree, err := run("rev-parse", "--verify", "--end-of-options", c.Head+"^{tree}")
	if err != nil {
		return nil, err
	}
	if tree != c.Tree {
		differs = append(differs, fmt.Sprintf("the head's tree is %s, the manifest says %s", tree, c.Tree))
	}
	if _, err := run("merge-base", "--is-ancestor", c.Base, c.Head); err != nil {
		differs = append(differs, "the head does not stand on the base "+c.Base)
	}
	out, err := g.Run(ctx, git.Call{GitDir: gitDir, Args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--ignore-submodules=none", c.Base, c.Head}})
	if err != nil {
		return nil, err
	}
	if n := len(c.Commits); n > 0 {
		trees, err := run("log", "--first-parent", "--reverse", "--format=%T", fmt.Sprintf("--max-count=%d", n), c.Head)
		if err != nil {
			return nil, err
		}
		made := strings.Fields(trees)
		if len(made) < n {
			differs = append(differs, fmt.Sprintf("the manifest lists %d commits, and the head has %d", n, len(made)))
		}
		for i, tree := range made[:min(len(made), n)] {
			if tree != c.Commits[i].Tree {
				differs = append(differs, fmt.Sprintf("commit %d of %d has tree %s, the manifest says %s", i+1, n, tree, c.Commits[i].Tree))
			}
		}
	}
	return append(differs, c.compare(actual(out))...), nil
}

// side is what one path was and became.
type side struct{ oldMode, newMode, oldID, newID string }

func actual(out []byte) map[string]side {
	found := map[string]side{}
	fields := bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0})
	for i := 0; i+1 < len(fields); i += 2 {
		if f := strings.Fields(strings.TrimPrefix(string(fields[i]), ":")); len(f) == 5 {
			found[string(fields[i+1])] = side{nothing(f[0]), nothing(f[1]), nothing(f[2]), nothing(f[3])}
		}
	}
	return found
}

// nothing turns git's zeros for "no file" into an empty text.
func nothing(s string) string {
	if strings.Trim(s, "0") == "" {
		return ""
	}
	return s
}

// compare takes renames apart into what went and what came.
func (c Claim) compare(found map[string]side) (differs []string) {
	claimed := map[string]side{}
	for _, ch := range c.Changes {
		path, from := ch.Path, ch.From
		if ch.RawPath != nil {
			path = string(ch.RawPath)
		}
		if ch.RawFrom != nil {
			from = string(ch.RawFrom)
		}
		if from == "" || from == path {
			claimed[path] = side{nothing(ch.OldMode), nothing(ch.NewMode), nothing(ch.OldID), nothing(ch.NewID)}
			continue
		}
		claimed[from] = side{oldMode: ch.OldMode, oldID: ch.OldID}
		claimed[path] = side{newMode: ch.NewMode, newID: ch.NewID}
	}
	for path, is := range found {
		if says, ok := claimed[path]; !ok {
			differs = append(differs, fmt.Sprintf("%q has changed, and is not in the manifest", path))
		} else if says != is {
			differs = append(differs, fmt.Sprintf("%q is %+v, the manifest says %+v", path, is, says))
		}
	}
	for path := range claimed {
		if _, ok := found[path]; !ok {
			differs = append(differs, fmt.Sprintf("%q is in the manifest, and has not changed", path))
		}
	}
	slices.Sort(differs)
	return differs
}
