package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/audit"
)

// What people do to sandboxes by hand is on the record of the bot, and what was found there among the findings.
func TestByHandIsOnRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create()
	if got := b.want(0, "findings", "list", "--json"); got != "[]" {
		t.Errorf("no findings are %q", got)
	}
	b.want(0, "sandbox", "exec", id, "--net", "allowed.example", "--", "sh", "-c",
		`git ls-remote http://denied.example/a 2>/dev/null; mkfifo pipe; : keep-this-argument-out`)
	b.want(0, "sandbox", "changes", id)
	b.want(0, "sandbox", "check", id, "--name", "full", "--", "sh", "-c", `ln -s /etc/passwd out`)
	b.want(0, "sandbox", "keep", id, "--reason", "to look")
	b.want(0, "sandbox", "keep", id, "--end")
	b.want(0, "sandbox", "discard", id)
	b.want(0, "sandbox", "recover", id, "--to", t.TempDir()+"/back")

	var kinds []string
	out := b.want(0, "audit", "export")
	for line := range strings.Lines(out) {
		var r audit.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Run != id || !strings.HasPrefix(r.Actor, "local user ") {
			t.Errorf("%v: %s", err, line)
		}
		kinds = append(kinds, r.Kind)
	}
	for _, want := range []string{"sandbox.created", "sandbox.opened", "sandbox.findings", "sandbox.collected", "sandbox.kept", "sandbox.discarded", "sandbox.recovered"} {
		if !slices.Contains(kinds, want) {
			t.Errorf("no %s in %q", want, kinds)
		}
	}
	if !strings.Contains(out, "sh: network allowed.example") || strings.Contains(out, "keep-this-argument-out") {
		t.Errorf("recorded:\n%s", out)
	}
	if got := b.want(0, "audit", "verify"); !strings.Contains(got, "whole") {
		t.Errorf("verify: %s", got)
	}
	list := b.want(0, "findings", "list")
	for _, want := range []string{"net.denied", "collect.special"} {
		if strings.Count(list, want) != 1 {
			t.Errorf("no %s, or twice, in\n%s", want, list)
		}
	}
	export := b.want(0, "findings", "export")
	if n := strings.Count(export, `"class_uid":2004`); n != strings.Count(list, "\n")+1 {
		t.Errorf("%d findings exported:\n%s", n, export)
	}
}

// TestNoRecordIsNotAnEmptyOne asks in a state directory that is no bot's.
func TestNoRecordIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"findings", "list"}, {"audit", "verify"}, {"audit", "export"}} {
		b := newBench(t)
		code, out, said := b.run("", args...)
		if code != 1 || out != "" || !strings.Contains(said, "there is no database of a bot") {
			t.Errorf("%v: exit status %d, %q, %q", args, code, out, said)
		}
	}
}
