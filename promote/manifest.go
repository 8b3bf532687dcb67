package promote

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"unicode/utf8"

	"github.com/sandpiper-bot/sandpiper/promote/gates"
	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// ManifestVersion is the version of the form that Canonical writes.
const ManifestVersion = 1

// Manifest says exactly what a promotion changed, so that anybody can hold the head commit against it.
type Manifest struct {
	Mission   string
	Run       sandbox.ID
	RepoID    int64
	Issue     int
	Requester Person
	Agent     string
	Branch    string // the base branch
	MergeBase string // commit that the run started from
	Base      string // from which Changes count, below Head: MergeBase, or the newest commit of the base branch
	Tree      string
	Head      string // commit that was pushed
	Selection sandbox.Selection
	Changes   []sandbox.Change // by path
	LeftOut   []sandbox.Change // changed in the sandbox, not in Head
	Gates     []gates.Result
	Record
	Steps  []Step  // of the commits between Base and Head, if the agent's were kept: trees and first lines are part of the manifest
	Checks []Check // only name, conclusion and whether it is required are part of the manifest
}

func (r Request) manifest(head string) Manifest {
	s := r.Staged
	return Manifest{
		Mission: r.Mission, Run: r.Run, RepoID: r.RepoID, Issue: r.Issue, Requester: r.Requester, Agent: r.Agent, Branch: r.Base,
		MergeBase: s.MergeBase, Base: s.Base, Tree: s.Tree, Head: head, Selection: s.Selection,
		Changes: byPath(s.Changes), LeftOut: byPath(s.LeftOut), Gates: r.Gates, Record: r.Record, Steps: s.Steps, Checks: r.Checks,
	}
}

// Canonical is the manifest as JSON in the one form that its digest is of: RFC 8785, that is without white space and with
// sorted keys.
func (m Manifest) Canonical() []byte {
	var b bytes.Buffer
	writeCanonical(&b, m.predicate())
	return b.Bytes()
}

// predicate is the manifest as an object. A path that is not UTF-8 has its bytes in base64 beside it, since JSON cannot
// hold them.
func (m Manifest) predicate() object {
	checks := []any{}
	for _, c := range m.Checks {
		checks = append(checks, object{"name": c.Name, "conclusion": c.Conclusion, "required": c.Required})
	}
	findings := []any{}
	for _, f := range m.Findings {
		findings = append(findings, object{"kind": f.Kind, "severity": f.Severity, "observer": f.Observer, "outcome": f.Outcome, "evidence": f.Evidence})
	}
	held := []any{}
	for _, g := range m.Gates {
		held = append(held, object{"gate": g.Gate, "level": string(g.Level), "found": len(g.Found) + g.More, "allowed": g.Allowed})
	}
	steps := []any{}
	for _, s := range m.Steps {
		subject, _, _ := strings.Cut(s.Message, "\n")
		steps = append(steps, object{"tree": s.Tree, "subject": subject})
	}
	return object{
		"version": ManifestVersion, "mission": m.Mission, "run": string(m.Run), "repository": m.RepoID, "issue": m.Issue,
		"requester": object{"login": m.Requester.Login, "id": m.Requester.ID}, "agent": m.Agent, "branch": m.Branch,
		"merge_base": m.MergeBase, "base": m.Base, "tree": m.Tree, "head": m.Head,
		"selection": object{"only": texts(m.Selection.Only), "drop": texts(m.Selection.Drop)},
		"changes":   changes(byPath(m.Changes)), "left_out": changes(byPath(m.LeftOut)), "checks": checks, "gates": held, "commits": steps,
		"policy": m.Policy, "receipt": m.Receipt, "agent_version": m.AgentVersion, "bot_version": m.BotVersion, "findings": findings,
	}
}

// Digest is "sha256:" and the hex digest of Canonical.
func (m Manifest) Digest() string {
	sum := sha256.Sum256(m.Canonical())
	return "sha256:" + hex.EncodeToString(sum[:])
}

func changes(list []sandbox.Change) []any {
	out := []any{}
	for _, c := range list {
		o := object{"path": c.Path, "kind": string(c.Kind), "size": c.Size, "added": c.Added, "removed": c.Removed}
		for key, value := range map[string]string{
			"old_mode": c.OldMode, "new_mode": c.NewMode, "old_id": c.OldID, "new_id": c.NewID, "from": c.From,
			"path_base64": rawPath(c.Path), "from_base64": rawPath(c.From),
		} {
			if value != "" {
				o[key] = value
			}
		}
		out = append(out, o)
	}
	return out
}

func rawPath(p string) string {
	if utf8.ValidString(p) {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(p))
}

func texts(list []string) []any {
	out := []any{}
	for _, s := range list {
		out = append(out, s)
	}
	return out
}
