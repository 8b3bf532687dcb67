// Package local is what the backends have in common that keep workspaces on the disk of this machine: how a command gets into the
// jail and what comes of it, the private git directory, how a tree is removed that a sandbox has written.
//
// It must not know how a workspace is made or where its changes are: that is what the backends differ in.
package local

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
)

// Where things are inside.
const (
	GitDir     = "/run/sandpiper/git" // the private git directory
	ObjectsDir = "/run/sandpiper/objects"
	GitFile    = "gitdir: " + GitDir + "\n" // what .git of the workspace holds
)

// privateConfig is the configuration of the git directory inside. A name and an address make commits work. Automatic
// collection of garbage would copy the borrowed objects. The remote answers commands that the broker serves.
const privateConfig = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logAllRefUpdates = true
%s[gc]
	auto = 0
[remote "origin"]
	url = ` + broker.GitURL + `
	fetch = +refs/heads/*:refs/remotes/origin/*
[user]
	name = Sandpiper agent
	email = agent@sandpiper.invalid
[advice]
	detachedHead = false
`

// statChecks is for checkouts that were given to another user after git wrote its index: the change of owner changed each ctime, and
// git would hash all files again (measured: 20,000 of 20,000) unless it looks at times and sizes only.
const statChecks = `	trustctime = false
	checkStat = minimal
`

// MakeGitDir makes a private git directory, without its index, that is at a commit of a store and borrows the store's objects.
// Restat says that the files' stat data are not those that their index will have.
func MakeGitDir(dir, store, commit string, restat bool) error {
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags", "info", "hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	checks := ""
	if restat {
		checks = statChecks
	}
	files := map[string][]byte{
		"HEAD":                    []byte(commit + "\n"),
		"config":                  fmt.Appendf(nil, privateConfig, checks),
		"objects/info/alternates": []byte(ObjectsDir + "\n"),
	}
	shallow, err := os.ReadFile(filepath.Join(store, "shallow"))
	if err == nil {
		files["shallow"] = shallow
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
