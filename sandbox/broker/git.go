package broker

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// repository offers a run's repository to git inside, from the bot's own store, so that nobody there needs a credential for it.
//
// It speaks version 0 of the protocol, whatever the client asks for: under version 2 upload-pack gives out any object that
// the client can name, and the store has those of other runs too; under version 0 only what a ref that it shows leads to (see checkWants).
type repository struct {
	stores *gitstore.Stores
	key    string
	run    sandbox.ID
}

const (
	fetched = "refs/sandpiper/fetch/heads/" // where the bot puts the branches that it fetches
	gitTime = 10 * time.Minute
	maxWant = 8 << 20 // of what a client has and wants: 150,000 lines
)

func gitActions(repo *repository) []Action {
	return []Action{
		{Name: "git.refs", Method: "GET", Path: "/git/info/refs", Query: []string{"service"}, Do: gitRefs{repo}},
		{Name: "git.fetch", Method: "POST", Path: "/git/git-upload-pack", Do: gitFetch{repo}},
		{Name: "git.push", Method: "POST", Path: "/git/git-receive-pack", Do: gitPush{}},
	}
}

// storeKey is the key of a store's git directory.
func storeKey(dir string) string { return strings.TrimSuffix(filepath.Base(dir), ".git") }

// uploadPack runs git upload-pack on what the run may see: the branches that were fetched, and its own base.
func (r *repository) uploadPack(ctx context.Context, in io.Reader, out io.Writer, args ...string) error {
	_, err := r.stores.Read(ctx, r.key, git.Call{
		Args: append(append([]string{"upload-pack", "--strict", "--timeout=60", "--stateless-rpc"}, args...), r.stores.Dir(r.key)),
		Config: []string{ // the last one that fits a ref counts
			"transfer.hideRefs=HEAD", "transfer.hideRefs=refs", "transfer.hideRefs=!" + strings.TrimSuffix(fetched, "/"),
			"transfer.hideRefs=!" + sandbox.Ref(r.run, "base"),
			"uploadpack.allowTipSHA1InWant=false", "uploadpack.allowReachableSHA1InWant=false", "uploadpack.allowAnySHA1InWant=false",
		},
		Stdin: in, Stdout: out, Timeout: gitTime,
	})
	return err
}

type gitRefs struct{ *repository }

// Do tells the refs, under the names that they have in the repository itself; HEAD is the run's base.
func (g gitRefs) Do(w http.ResponseWriter, r *http.Request, c *Call) {
	switch service := r.URL.Query().Get("service"); service {
	case "git-upload-pack":
	case "git-receive-pack":
		gitPush{}.Do(w, r, c)
		return
	default:
		c.Refuse(w, http.StatusForbidden, "git", "only smart HTTP is spoken here: git-upload-pack")
		return
	}
	var told bytes.Buffer
	if err := g.uploadPack(r.Context(), nil, &told, "--advertise-refs"); err != nil {
		c.session.gitFailed(w, c, err)
		return
	}
	lines, err := g.rename(told.Bytes())
	if err != nil {
		c.session.gitFailed(w, c, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(append(append(packet("# service=git-upload-pack\n"), "0000"...), lines...))
}

// rename gives the advertisement anew. Wants name objects and not refs, so upload-pack need not know.
func (g gitRefs) rename(told []byte) ([]byte, error) {
	refs, capabilities := map[string]string{}, ""
	for line, rest, err := nextPacket(told); ; line, rest, err = nextPacket(rest) {
		if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		line, more, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if capabilities == "" {
			capabilities = more
		}
		id, name, _ := strings.Cut(line, " ")
		if name == sandbox.Ref(g.run, "base") {
			refs["HEAD"] = id
		} else if branch, ok := strings.CutPrefix(name, fetched); ok {
			refs["refs/heads/"+branch] = id
		}
	}
	var out []byte
	for i, name := range slices.Sorted(maps.Keys(refs)) {
		line := refs[name] + " " + name
		if i == 0 {
			line += "\x00" + capabilities
		}
		out = append(out, packet(line+"\n")...)
	}
	if len(refs) == 0 {
		return nil, errors.New("the store shows no ref of this run")
	}
	return append(out, "0000"...), nil
}

func packet(line string) []byte { return fmt.Appendf(nil, "%04x%s", len(line)+4, line) }

// nextPacket cuts one line of gitprotocol-common(5) off; "" is a flush.
func nextPacket(data []byte) (line string, rest []byte, err error) {
	if len(data) < 4 {
		return "", nil, errors.New("upload-pack said less than it should")
	}
	n, err := strconv.ParseUint(string(data[:4]), 16, 16)
	switch {
	case err != nil || int(n) > len(data) || n > 0 && n <= 4:
		return "", nil, errors.New("upload-pack said what is no packet")
	case n == 0:
		return "", data[4:], nil
	}
	return string(data[4:n]), data[n:], nil
}

type gitFetch struct{ *repository }

// Do answers one round of a fetch.
func (g gitFetch) Do(w http.ResponseWriter, r *http.Request, c *Call) {
	if r.Header.Get("Content-Type") != "application/x-git-upload-pack-request" {
		c.Refuse(w, http.StatusForbidden, "git", "this is no request of git fetch")
		return
	}
	done := within(w, time.Minute)
	body, err := readWhole(w, r)
	done()
	c.Record.Up = int64(len(body))
	if err != nil {
		c.Refuse(w, http.StatusBadRequest, "body.read", err.Error())
		return
	}
	wants, err := readRequest(body)
	if err != nil {
		c.Refuse(w, http.StatusForbidden, "git", err.Error())
		return
	}
	err = g.checkWants(r.Context(), wants)
	refused := (*errWant)(nil)
	if err != nil && !errors.As(err, &refused) {
		c.session.gitFailed(w, c, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	w.Header().Set("Cache-Control", "no-cache")
	if refused != nil {
		c.Record.Decision, c.Record.Rule = Deny, "git.want"
		_, _ = w.Write(packet("ERR " + refused.Error() + "\n"))
		return
	}
	if err := g.uploadPack(r.Context(), bytes.NewReader(body), w); err != nil {
		c.session.gitFailed(w, c, err)
	}
}

// readWhole reads the body; git compresses one of more than a kilobyte.
func readWhole(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var body io.Reader = http.MaxBytesReader(w, r.Body, maxWant)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, errors.New("the body is not compressed as it says")
		}
		body = z
	}
	whole, err := io.ReadAll(io.LimitReader(body, maxWant+1))
	if err != nil || len(whole) > maxWant {
		return nil, errors.New("the body did not come to its end, or is too large")
	}
	return whole, nil
}

// gitFailed answers for a git that failed. Upload-pack tells the client itself what it does not give out: that is a refusal.
func (s *Session) gitFailed(w http.ResponseWriter, c *Call, err error) {
	var failed *git.Error
	if errors.As(err, &failed) && strings.Contains(failed.Stderr, "not our ref") {
		c.Record.Decision, c.Record.Rule = Deny, "git.want"
		return
	}
	s.log.Warn("broker: git", "run", s.run, "action", c.Record.Action, "error", err)
	c.Record.Rule = "git.failed"
	if a, ok := w.(*answer); ok && a.status == 0 {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		http.Error(w, "sandpiper: the repository cannot be read", http.StatusInternalServerError)
		return
	}
	c.cut = true
}

type gitPush struct{}

// Do refuses. Git shows the status, and the text where it is asked to be verbose.
func (gitPush) Do(w http.ResponseWriter, _ *http.Request, c *Call) {
	c.Record.Action = "git.push"
	c.Refuse(w, http.StatusForbidden, "git.push", "nothing is pushed from a sandbox; leave the changes in the files, they are collected when you end")
}
