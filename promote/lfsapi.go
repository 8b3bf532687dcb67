package promote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// The batch API of Git LFS (https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md), as much of it as uploads need.

const lfsType = "application/vnd.git-lfs+json"

// lfsAction is where an object goes, with what proves that one may.
type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

type lfsAnswer struct {
	OID     string `json:"oid"`
	Actions struct {
		Upload lfsAction `json:"upload"`
		Verify lfsAction `json:"verify"`
	} `json:"actions"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// batchMost is how many objects GitHub takes in one request.
const batchMost = 100

// batch asks what is to be done with objects, by their ids.
func (r Stored) batch(ctx context.Context, operation string, objects []LFSObject) (map[string]lfsAnswer, error) {
	answers := map[string]lfsAnswer{}
	for len(objects) > 0 {
		some := objects[:min(len(objects), batchMost)]
		objects = objects[len(some):]
		type object struct {
			OID  string `json:"oid"`
			Size int64  `json:"size"`
		}
		ask := struct {
			Operation string   `json:"operation"`
			Transfers []string `json:"transfers"`
			Objects   []object `json:"objects"`
			Hash      string   `json:"hash_algo"`
		}{operation, []string{"basic"}, nil, "sha256"}
		for _, o := range some {
			ask.Objects = append(ask.Objects, object{o.OID, o.Size})
		}
		var answer struct {
			Objects []lfsAnswer `json:"objects"`
		}
		if err := r.askLFS(ctx, ask, &answer); err != nil {
			return nil, err
		}
		for _, a := range answer.Objects {
			answers[a.OID] = a
		}
	}
	return answers, nil
}

// askLFS is one request with our credential, to the repository's own address only.
func (r Stored) askLFS(ctx context.Context, ask, into any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return fmt.Errorf("git lfs: %w", err)
	}
	user, password, err := r.Remote.Credentials(ctx)
	if err != nil {
		return fmt.Errorf("git lfs: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(r.Remote.URL, ".git")+".git/info/lfs/objects/batch", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("git lfs: %w", err)
	}
	request.SetBasicAuth(user, password.Reveal())
	request.Header.Set("Accept", lfsType)
	request.Header.Set("Content-Type", lfsType)
	return doLFS(request, into)
}

// send uploads one object to where the answer says, and confirms it if that is asked for. The storage belongs to others: it gets
// the headers of the answer and nothing of ours.
func (r Stored) send(ctx context.Context, o LFSObject, a lfsAnswer) error {
	content := r.content(ctx, o.Content.NewID)
	defer content.Close()
	put, err := http.NewRequestWithContext(ctx, http.MethodPut, a.Actions.Upload.Href, io.LimitReader(content, o.Size))
	if err != nil {
		return withoutAddress(err)
	}
	put.ContentLength = o.Size
	put.Header.Set("Content-Type", "application/octet-stream")
	for name, value := range a.Actions.Upload.Header {
		put.Header.Set(name, value)
	}
	if err := doLFS(put, nil); err != nil || a.Actions.Verify.Href == "" {
		return err
	}
	verify, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Actions.Verify.Href, strings.NewReader(fmt.Sprintf(`{"oid":%q,"size":%d}`, o.OID, o.Size)))
	if err != nil {
		return withoutAddress(err)
	}
	verify.Header.Set("Accept", lfsType)
	verify.Header.Set("Content-Type", lfsType)
	for name, value := range a.Actions.Verify.Header {
		verify.Header.Set(name, value)
	}
	return doLFS(verify, nil)
}

// doLFS follows no redirect: a credential would go with it.
func doLFS(request *http.Request, into any) error {
	client := &http.Client{Timeout: 10 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("git lfs: %w: %w", git.ErrNetwork, withoutAddress(err))
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return fmt.Errorf("git lfs: %w: %w", git.ErrNetwork, err)
	}
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusNotFound || code == http.StatusUnprocessableEntity || code == http.StatusInsufficientStorage:
		var said struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(text, &said) // some servers send a page
		return &ErrRefused{Reason: fmt.Sprintf("Git LFS of this repository answers %d %s", code, oneLine(said.Message, strings.Clone)), Err: errors.New(response.Status)}
	case code >= 300:
		return fmt.Errorf("git lfs: %w: %s", git.ErrNetwork, response.Status)
	case into == nil:
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("git lfs: %w", err)
	}
	return nil
}

// withoutAddress is an error without the address that it is of: that of a storage is signed, and whoever reads it may write there.
func withoutAddress(err error) error {
	var of *url.Error
	if errors.As(err, &of) {
		return of.Err
	}
	return err
}
