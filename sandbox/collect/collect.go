// Package collect turns a workspace that anybody may have filled with anything into a commit in a bare store.
//
// It reads the workspace as data: by descriptors and without following a link, never through a git directory, a configuration,
// a hook or a filter that lies in it. Rules of .gitignore and line endings of .gitattributes are applied by git, on a
// mirror that holds nothing but copies of such files and a git directory of ours. What git could not hold, or should
// not, is left out and said in a finding; what cannot be recorded at all is an error. Nothing is left out in silence.
//
// All processes of the sandbox must be dead before: the package does not defend against a tree that changes under it, but it
// notices, and then fails.
package collect

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/objects"
)

// Caps of what is recorded. Zero means the default.
type Caps struct {
	File    int64 // bytes of one file in a result: 100 MiB, the largest that GitHub takes
	Kept    int64 // bytes of one file in a snapshot of everything: 1 GiB
	Total   int64 // bytes of all changed files: 4 GiB
	Ignored int64 // bytes of ignored files in a snapshot of everything: 256 MiB; further ones are told, and not kept
	Entries int   // names in the workspace: 2,000,000

	Rules time.Duration // that git takes to find the rules for all names: 1 min
}

func (c Caps) withDefaults() Caps {
	set := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.File, 100<<20)
	set(&c.Kept, 1<<30)
	set(&c.Total, 4<<30)
	set(&c.Ignored, 256<<20)
	if c.Entries == 0 {
		c.Entries = 2_000_000
	}
	if c.Rules == 0 {
		c.Rules = time.Minute
	}
	return c
}

// Store is the bare store: its objects, and git in it.
type Store interface {
	objects.Repository
	Run(ctx context.Context, c git.Call) ([]byte, error)
}

// Source is one workspace.
type Source struct {
	Run      sandbox.ID
	Root     string    // the files
	Baseline *Baseline // what they were; not with Layer
	Layer    *Layer    // not nil: Root holds only what was written
	Base     string    // the commit they were made from
	Store    Store
	Scratch  string // an existing directory of ours, outside the workspace, for the mirror

	Git string // the private git directory of the sandbox, or its upper layer: what its index says is asked for; "": nothing

	// Everything asks for a snapshot of all files as they lie, ignored ones too, with the names that git does not take
	// escaped (see Escape), and with GitDir, the private git directory of the sandbox, as data at Escape(".git").
	Everything  bool
	GitDir      string
	GitBaseline *Baseline

	Caps Caps
	Now  func() time.Time
}

// Result is a collected workspace.
type Result struct {
	Commit   string // the base's own when nothing differs
	Findings []sandbox.Finding
}

// change is a path that goes into the commit.
type change struct {
	path    string // in the workspace
	as      string // in the commit
	mode    string
	size    int64
	ctime   unix.Timespec
	tracked bool
	object  string // its blob, when git converted it, or it is as it was in the base
	lower   string // where it lies in the lower layers, if it does not in the upper
	gitDir  bool   // it lies in Source.GitDir
}

type collector struct {
	Source
	notes   notes
	changes []change
	deleted []string
	rules   []change // .gitignore and .gitattributes files
	trees   *trees   // of the base, once they are needed
	shape   hash.Hash

	baseAttributes []string // with Layer: the .gitattributes files of the base that hold for what was written, also deleted ones
}

// Collect reads the workspace and builds the commit.
func Collect(ctx context.Context, s Source) (Result, error) {
	s.Caps = s.Caps.withDefaults()
	c := &collector{Source: s, notes: notes{run: s.Run, now: s.Now}}
	defer c.close()
	before, err := c.scan(ctx)
	if err != nil {
		return Result{}, c.refuse(err)
	}
	if err := c.askIndex(); err != nil {
		return Result{}, c.refuse(err)
	}
	if err := c.dropIgnored(ctx); err != nil {
		return Result{}, c.refuse(err)
	}
	if err := c.holdToCaps(); err != nil {
		return Result{}, c.refuse(err)
	}
	if err := c.convert(ctx); err != nil {
		return Result{}, c.refuse(err)
	}
	commit, err := c.build(ctx)
	if err != nil {
		return Result{}, c.refuse(err)
	}
	if s.Everything { // the workspace is removed after this: it has to be what was recorded
		again := &collector{Source: s, notes: notes{run: s.Run, now: s.Now}}
		defer again.close()
		after, err := again.scan(ctx)
		if err != nil {
			return Result{}, c.refuse(err)
		}
		if before != after {
			return Result{}, c.refuse(errors.New("the workspace changed while it was recorded"))
		}
	}
	return Result{Commit: commit, Findings: c.notes.list()}, nil
}

// openBase gives the trees of the base.
func (c *collector) openBase() (t *trees, err error) {
	if c.trees == nil {
		c.trees, err = openTrees(c.Store.Dir(), c.Base)
	}
	return c.trees, err
}

// close gives what is open back.
func (c *collector) close() {
	if c.trees != nil {
		c.trees.objects.Close()
	}
}

// refuse marks what went wrong with the workspace as ErrUnrecorded. A context that ended says nothing of the workspace.
func (c *collector) refuse(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("collect: %w", err)
	}
	if full(err) {
		return fmt.Errorf("collect: no space left on device: make room where the bot keeps its state ('sandpiper reap' removes what is done with), then do this again: %w: %w",
			sandbox.ErrUnrecorded, err)
	}
	return fmt.Errorf("collect: %w: %w", sandbox.ErrUnrecorded, err)
}

// full says whether a disk is: git says so in words.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, errNoRoom) ||
		strings.Contains(strings.ToLower(err.Error()), "no space left on device")
}

// Differs says whether a walk finds anything that differs from the baseline, without reading a file: a file that was written
// with the same content differs too.
func Differs(ctx context.Context, s Source) (bool, error) {
	s.Caps = s.Caps.withDefaults()
	c := &collector{Source: s, notes: notes{run: s.Run, now: s.Now}}
	defer c.close()
	if _, err := c.scan(ctx); err != nil {
		return true, err
	}
	if err := c.askIndex(); err != nil {
		return true, err
	}
	return len(c.changes)+len(c.deleted) > 0, nil
}

// scan walks the workspace and gives a digest of names and stat data.
func (c *collector) scan(ctx context.Context) (digest string, err error) {
	for _, b := range []*Baseline{c.Baseline, c.GitBaseline} {
		if b == nil {
			continue
		}
		for _, s := range b.files {
			s.found = false
		}
	}
	c.shape = sha256.New()
	if c.Layer != nil {
		err = c.scanUpper(ctx)
	} else {
		w := &walker{ctx: ctx, limit: c.Caps.Entries, visit: c.visit, deeper: c.tooDeep}
		err = w.root(c.Root)
	}
	if err != nil {
		return "", err
	}
	for name, s := range c.Baseline.files {
		if !s.found {
			c.deleted = append(c.deleted, name)
		}
	}
	slices.Sort(c.deleted)
	if c.Everything && c.GitDir != "" {
		g := &walker{ctx: ctx, limit: c.Caps.Entries, visit: c.visitGit, deeper: c.tooDeep}
		if err := g.root(c.GitDir); err != nil {
			return "", err
		}
	}
	return string(c.shape.Sum(nil)), nil
}

// digest adds an entry to the shape of the workspace, where that is wanted.
func (c *collector) digest(e entry) {
	if c.Everything {
		c.shape.Write(append(statOf(&e.stat).append(nil), e.path+"\x00"...))
	}
}

// visit judges one entry of the workspace.
func (c *collector) visit(e entry) (into bool, err error) {
	if e.path == ".git" && e.kind() == unix.S_IFREG {
		return false, nil // ours: it ties the tree to the store, and inside another one lies over it
	}
	c.digest(e)
	if forbidden(e.name) {
		kind := "collect.name"
		if e.name == ".git" {
			kind = "git.nested"
		}
		c.notes.add(kind, "medium", e.path)
		if !c.Everything {
			return false, nil
		}
	}
	was := c.Baseline.files[e.path]
	if was != nil && was.mode == objects.ModeRepo && e.kind() == unix.S_IFDIR {
		return c.visitSubmodule(e, was)
	}
	switch e.kind() {
	case unix.S_IFDIR:
		return true, nil
	case unix.S_IFREG, unix.S_IFLNK:
		return false, c.file(e)
	}
	c.notes.add("collect.special", "medium", fmt.Sprintf("%s (mode %o)", e.path, e.stat.Mode))
	return false, nil
}

// tooDeep notes what is left out, of a snapshot of everything too: no git could take it out of the store again, and a sandbox that
// holds nothing else of worth must be removable.
func (c *collector) tooDeep(e entry) {
	c.notes.add("collect.limit", "medium", fmt.Sprintf("%.200s... (what lies more than %d directories deep)", e.path, maxDepth))
}

// visitSubmodule leaves the commit of a submodule as it is in the base: its directory is empty in a fresh workspace, as
// submodules are not checked out, and what a sandbox puts there is neither this repository's nor known to anybody else.
func (c *collector) visitSubmodule(e entry, was *stamp) (bool, error) {
	fd, err := openDir(e.dir, e.name)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	empty, err := isEmpty(fd)
	if err != nil || empty {
		was.found = err == nil
		return false, err
	}
	c.notes.add("git.submodule", "low", e.path)
	was.found = !c.Everything
	return c.Everything, nil
}

func (c *collector) file(e entry) error {
	ch := change{path: e.path, as: e.path, mode: objects.ModeFile, size: e.stat.Size, ctime: e.stat.Ctim}
	switch {
	case e.kind() == unix.S_IFLNK:
		ch.mode = objects.ModeLink
	case e.stat.Mode&unix.S_IXUSR != 0:
		ch.mode = objects.ModeExec
	}
	if e.stat.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		c.notes.add("fs.setuid", "medium", fmt.Sprintf("%s (mode %o)", e.path, e.stat.Mode))
	}
	if ch.mode != objects.ModeLink && (e.name == ".gitignore" || e.name == ".gitattributes") {
		c.rules = append(c.rules, ch)
	}
	tracked, same := c.Baseline.same(e)
	if same {
		return nil
	}
	ch.tracked = tracked
	if ch.mode == objects.ModeLink {
		if skip, err := c.link(e); err != nil || skip {
			return err
		}
	}
	if c.Everything {
		ch.as = escapePath(e.path)
	}
	c.changes = append(c.changes, ch)
	return nil
}

// link notes where a new link points to. A link in the place of .gitmodules is refused by git itself (CVE-2018-11235).
func (c *collector) link(e entry) (skip bool, err error) {
	target, err := readLink(e.dir, e.name)
	if err != nil {
		return false, fmt.Errorf("read link %q: %w", e.path, err)
	}
	if leaves(e.path, target) {
		c.notes.add("fs.symlink_out", "low", e.path+" -> "+target)
	}
	if strings.EqualFold(e.name, ".gitmodules") && !c.Everything {
		c.notes.add("collect.name", "medium", e.path+" (a link)")
		return true, nil
	}
	return false, nil
}

// visitGit takes what changed in the private git directory: commits, branches and stashes that lie nowhere else.
func (c *collector) visitGit(e entry) (into bool, err error) {
	c.digest(e)
	switch e.kind() {
	case unix.S_IFDIR:
		return true, nil
	case unix.S_IFREG, unix.S_IFLNK:
	default:
		if c.Layer == nil || !isWhiteout(e) {
			c.notes.add("collect.special", "medium", ".git/"+e.path)
		}
		return false, nil
	}
	if e.path == "index" {
		return false, nil
	}
	if c.GitBaseline != nil {
		if _, same := c.GitBaseline.same(e); same {
			return false, nil
		}
	}
	mode := objects.ModeFile
	if e.kind() == unix.S_IFLNK {
		mode = objects.ModeLink
	}
	c.changes = append(c.changes, change{path: e.path, as: Escape(".git") + "/" + escapePath(e.path), mode: mode,
		size: e.stat.Size, ctime: e.stat.Ctim, gitDir: true})
	return false, nil
}

func escapePath(p string) string {
	parts := strings.Split(p, "/")
	for i := range parts {
		parts[i] = Escape(parts[i])
	}
	return strings.Join(parts, "/")
}
