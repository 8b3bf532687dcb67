package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// errWant is a wish that is not fulfilled, in upload-pack's own words.
type errWant struct{ id string }

func (e *errWant) Error() string { return "upload-pack: not our ref " + e.id }

// spoken are the lines of a request of version 0 (gitprotocol-pack(5)) that are passed on. deepen-not is not: it names a ref, and git
// answers for those that it hides too. Neither is filter, which we do not offer.
var spoken = []string{"want ", "have ", "shallow ", "deepen ", "deepen-since ", "done"}

// readRequest gives the objects that a request wants.
func readRequest(body []byte) (wants []string, err error) {
	for len(body) > 0 {
		var line string
		if line, body, err = nextPacket(body); err != nil {
			return nil, errors.New("this is no request of git fetch")
		}
		word := ""
		for _, s := range spoken {
			if strings.HasPrefix(line, s) {
				word = s
			}
		}
		if line != "" && word == "" {
			what, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			return nil, fmt.Errorf("git fetch is not served with %q", plain(what, 40))
		}
		if rest, ok := strings.CutPrefix(line, "want "); ok {
			id, _, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " ")
			wants = append(wants, id)
		}
	}
	return wants, nil
}

// checkWants refuses to give out anything that is no commit. Upload-pack finds out by itself whether a commit can be reached from what it
// shows, but where it serves one request after the other (--stateless-rpc) it gives out any file or tree that the store has.
func (r *repository) checkWants(ctx context.Context, wants []string) error {
	if len(wants) == 0 {
		return nil
	}
	for _, id := range wants {
		if strings.Trim(id, "0123456789abcdef") != "" || len(id) != 40 && len(id) != 64 {
			return &errWant{plain(id, 64)}
		}
	}
	out, err := r.stores.Read(ctx, r.key, git.Call{Args: []string{"cat-file", "--batch-check=%(objecttype)"},
		Stdin: strings.NewReader(strings.Join(wants, "\n") + "\n"), Timeout: gitTime})
	if err != nil {
		return err
	}
	kinds := bytes.Split(bytes.TrimSuffix(out, []byte("\n")), []byte("\n"))
	if len(kinds) != len(wants) {
		return fmt.Errorf("git cat-file gave %d answers for %d objects", len(kinds), len(wants))
	}
	for i, kind := range kinds {
		if string(kind) != "commit" {
			return &errWant{wants[i]}
		}
	}
	return nil
}
