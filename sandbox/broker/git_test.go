package broker

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// repo is a store with a fetched branch, the base of our run, and what another run made.
type repo struct {
	*world
	t                  *testing.T
	main, base, secret string
}

func run(t *testing.T, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/.none", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

func must(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := run(t, dir, args...)
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func openRepo(t *testing.T) *repo {
	t.Helper()
	g, err := git.New(git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stores, err := gitstore.Open(t.TempDir(), g)
	if err != nil {
		t.Fatal(err)
	}
	origin := t.TempDir()
	must(t, origin, "init", "-q", "-b", "main")
	must(t, origin, "commit", "-q", "--allow-empty", "-m", "the base")
	base := must(t, origin, "rev-parse", "HEAD")
	must(t, origin, "commit", "-q", "--allow-empty", "-m", "later on main")
	main := must(t, origin, "rev-parse", "HEAD")
	must(t, origin, "checkout", "-q", "-b", "other", base)
	must(t, origin, "commit", "-q", "--allow-empty", "-m", "the secret of another run")
	secret := must(t, origin, "rev-parse", "HEAD")
	err = stores.Fetch(t.Context(), gitstore.Remote{Key: "local-test", URL: origin}, "+refs/heads/main:"+fetched+"main", "+refs/heads/other:"+sandbox.Ref("r-other-1", "result"))
	if err != nil {
		t.Fatal(err)
	}
	if err := stores.SetRef(t.Context(), "local-test", sandbox.Ref("r-test-1", "base"), base, ""); err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Stores: stores})
	if err != nil {
		t.Fatal(err)
	}
	w := openOn(t, b, sandbox.Workspace{ID: "r-test-1", Exec: t.TempDir(), Store: stores.Dir("local-test")}, sandbox.Grant{Git: true})
	return &repo{w, t, main, base, secret}
}

func TestRepositoryIsFetched(t *testing.T) {
	t.Parallel()
	r := openRepo(t)
	if got, want := must(t, t.TempDir(), "ls-remote", r.url+"/git"), r.base+"\tHEAD\n"+r.main+"\trefs/heads/main"; got != want {
		t.Errorf("refs:\n%s\nwant:\n%s", got, want)
	}
	dir := t.TempDir()
	must(t, dir, "clone", "-q", r.url+"/git", "c")
	clone := filepath.Join(dir, "c")
	if got := must(t, clone, "log", "--format=%s", "origin/main"); got != "later on main\nthe base" {
		t.Errorf("history: %s", got)
	}
	must(t, clone, "fetch", "origin", "main")
	must(t, clone, "fetch", "--depth=1", "origin")
	must(t, clone, "-c", "protocol.version=2", "fetch", "origin")
	for _, rec := range r.records() {
		if rec.Decision != Allow || rec.Status != 200 || rec.Action != "git.refs" && rec.Action != "git.fetch" {
			t.Errorf("%+v", rec)
		}
	}
}

// Fetches of many commits ask with a body that git compresses.
func TestLongNegotiation(t *testing.T) {
	t.Parallel()
	r := openRepo(t)
	dir := t.TempDir()
	must(t, dir, "init", "-q")
	for i := range 60 {
		must(t, dir, "commit", "-q", "--allow-empty", "-m", fmt.Sprint("our own ", i))
	}
	must(t, dir, "fetch", "-q", r.url+"/git", "main")
	if got := must(t, dir, "rev-parse", "FETCH_HEAD"); got != r.main {
		t.Errorf("fetched %s, want %s", got, r.main)
	}
}

func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	r := openRepo(t)
	dir := t.TempDir()
	must(t, dir, "clone", "-q", r.url+"/git", "c")
	clone := filepath.Join(dir, "c")
	must(t, clone, "commit", "-q", "--allow-empty", "-m", "to push")
	if out, err := run(t, clone, "push", "origin", "HEAD:refs/heads/main"); err == nil || !strings.Contains(out, "403") {
		t.Errorf("%v: %s", err, out)
	}
	if status, text, _ := r.do("POST", "/git/git-receive-pack", "0000"); status != 403 || !strings.Contains(text, "nothing is pushed from a sandbox") {
		t.Errorf("%d %s", status, text)
	}
	if got := must(t, clone, "ls-remote", "origin", "main"); !strings.HasPrefix(got, r.main) {
		t.Errorf("main moved: %s", got)
	}
	r.close()
	if len(r.found) != 1 || r.found[0].Evidence != "git.push: git.push (2 times)" {
		t.Errorf("findings %+v", r.found)
	}
}

// The store has the objects of all runs. Only what the shown refs lead to is given out, whoever asks for it by its id; under
// version 2 of the protocol git itself would give it out, as the control shows.
func TestObjectsOfOtherRunsStayOutOfReach(t *testing.T) {
	t.Parallel()
	r := openRepo(t)
	dir := t.TempDir()
	must(t, dir, "init", "-q")
	for _, version := range []string{"0", "1", "2"} {
		out, err := run(t, dir, "-c", "protocol.version="+version, "fetch", r.url+"/git", r.secret)
		if err == nil {
			t.Errorf("version %s: fetched: %s", version, out)
		}
		must(t, dir, "-c", "protocol.version="+version, "fetch", r.url+"/git", r.main)
	}
	// git itself looks at the refs first; a client of one's own does not.
	want := string(packet("want "+r.secret+" side-band-64k\n")) + "0000" + string(packet("done\n"))
	_, text, _ := r.do("POST", "/git/git-upload-pack", want, "Content-Type", "application/x-git-upload-pack-request", "Git-Protocol", "version=2")
	if strings.Contains(text, "PACK") || !strings.Contains(text, "not our ref") {
		t.Errorf("%q", text)
	}
	control := string(packet("want "+r.main+" side-band-64k\n")) + "0000" + string(packet("done\n"))
	if _, text, _ := r.do("POST", "/git/git-upload-pack", control, "Content-Type", "application/x-git-upload-pack-request"); !strings.Contains(text, "PACK") {
		t.Errorf("control: %q", text)
	}
	command := string(packet("command=fetch\n")) + "0001" + string(packet("want "+r.secret+"\n")) + string(packet("done\n")) + "0000"
	_, text, _ = r.do("POST", "/git/git-upload-pack", command, "Content-Type", "application/x-git-upload-pack-request", "Git-Protocol", "version=2")
	if strings.Contains(text, "PACK") {
		t.Errorf("%q", text)
	}
	// Other ways to name it, or to hear of it.
	theirs := filepath.Join(t.TempDir(), "theirs")
	if err := os.WriteFile(theirs, []byte("what another run wrote"), 0o600); err != nil {
		t.Fatal(err)
	}
	blob := must(t, r.broker.o.Stores.Dir("local-test"), "hash-object", "-w", theirs)
	other := sandbox.Ref("r-other-1", "result")
	for what, request := range map[string]string{
		"a ref by its name":     string(packet("want-ref "+other+"\n")) + "0000" + string(packet("done\n")),
		"of its information":    string(packet("command=object-info\n")) + "0001" + string(packet("size")) + string(packet("oid "+r.secret+"\n")) + "0000",
		"a list of refs":        string(packet("command=ls-refs\n")) + "0001" + string(packet("ref-prefix refs/sandpiper/\n")) + "0000",
		"a bundle":              string(packet("command=bundle-uri\n")) + "0000",
		"from below":            string(packet("want "+r.main+" side-band-64k shallow deepen-not\n")) + string(packet("deepen-not "+other+"\n")) + "0000" + string(packet("done\n")),
		"beside an allowed one": string(packet("want "+r.main+" side-band-64k\n")) + string(packet("want "+r.secret+"\n")) + "0000" + string(packet("done\n")),
		"with a filter":         string(packet("want "+r.secret+" side-band-64k filter allow-any-sha1-in-want allow-tip-sha1-in-want\n")) + string(packet("filter blob:none\n")) + "0000" + string(packet("done\n")),
		"a file of theirs":      string(packet("want "+blob+" side-band-64k\n")) + "0000" + string(packet("done\n")),
	} {
		_, text, _ := r.do("POST", "/git/git-upload-pack", request, "Content-Type", "application/x-git-upload-pack-request", "Git-Protocol", "version=2")
		if strings.Contains(text, "PACK") || strings.Contains(text, other) || strings.Contains(text, "size") {
			t.Errorf("%s: %q", what, text)
		}
	}
	cmd := exec.CommandContext(t.Context(), "git", "-c", "transfer.hideRefs=refs", "upload-pack", "--stateless-rpc", r.broker.o.Stores.Dir("local-test"))
	cmd.Env, cmd.Stdin = []string{"PATH=" + os.Getenv("PATH"), "GIT_PROTOCOL=version=2"}, strings.NewReader(command)
	if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte("PACK")) {
		t.Errorf("control: %v %q", err, out)
	}
	denied := 0
	for _, rec := range r.records() {
		if rec.Rule == "git.want" {
			denied++
		}
	}
	if denied == 0 {
		t.Error("not recorded")
	}
}

func TestGitSpeaksOneProtocolOnly(t *testing.T) {
	t.Parallel()
	r := openRepo(t)
	for _, c := range []struct {
		method, path, body, kind string
		status                   int
	}{
		{"GET", "/git/info/refs", "", "", 403},
		{"GET", "/git/info/refs?service=git-upload-archive", "", "", 403},
		{"GET", "/git/HEAD", "", "", 403},
		{"GET", "/git/objects/info/packs", "", "", 403},
		{"POST", "/git/git-upload-archive", "0000", "application/x-git-upload-archive-request", 403},
		{"POST", "/git/git-upload-pack", "0000", "text/plain", 403},
		{"POST", "/git/git-upload-pack", strings.Repeat("x", maxWant+1), "application/x-git-upload-pack-request", 400},
		{"POST", "/git/git-upload-pack", "0000", "application/x-git-upload-pack-request", 200},
	} {
		if status, text, _ := r.do(c.method, c.path, c.body, "Content-Type", c.kind); status != c.status {
			t.Errorf("%s %s: %d %.200s", c.method, c.path, status, text)
		}
	}
	bomb := new(bytes.Buffer)
	bomb.Write([]byte("\x1f\x8b\x08\x00"))
	if status, _, _ := r.do("POST", "/git/git-upload-pack", bomb.String(), "Content-Encoding", "gzip", "Content-Type", "application/x-git-upload-pack-request"); status != http.StatusBadRequest {
		t.Errorf("half a gzip: %d", status)
	}
}

func FuzzPackets(f *testing.F) {
	f.Add([]byte("003f0123456789012345678901234567890123456789 refs/heads/main\x00caps\n0000"))
	f.Add([]byte("0004"))
	f.Add([]byte("ffff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for len(data) > 0 {
			line, rest, err := nextPacket(data)
			if err != nil {
				return
			}
			if len(rest) >= len(data) || len(line)+4 > len(data) && line != "" {
				t.Fatalf("%q: %q %q", data, line, rest)
			}
			data = rest
		}
	})
}
