package review

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/policy"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// TestRequesterOfAnotherName: who asked for the work, and was renamed since, does not approve it.
func TestRequesterOfAnotherName(t *testing.T) {
	t.Parallel()
	m := &store.Mission{Requester: "octavia", RequesterID: 7}
	for _, v := range []vote{
		{login: "octavia", id: 7, state: "APPROVED", commit: "aaa", person: true},
		{login: "octavia-at-acme", id: 7, state: "APPROVED", commit: "aaa", person: true},
		{login: "octavia", state: "APPROVED", commit: "aaa", person: true, how: "by a comment"},
	} {
		counts, why, err := new(Gate).counts(t.Context(), nil, m, policy.Default(), v, "aaa")
		if counts || why != "asked for this" || err != nil {
			t.Errorf("%+v counts: %v, %q, %v", v, counts, why, err)
		}
	}
}

// TestMoreCommitsThanGitHubLists: whoever wrote one that is not listed could approve it.
func TestMoreCommitsThanGitHubLists(t *testing.T) {
	t.Parallel()
	for listed, waits := range map[int]bool{commitsMost - 1: false, commitsMost: true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			page := 1
			fmt.Sscan(r.URL.Query().Get("page"), &page)
			from, to := (page-1)*100, min(page*100, listed)
			if to < listed {
				w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=%d>; rel="next"`, r.Host, r.URL.Path, page+1))
			}
			fmt.Fprintf(w, "[%s]", strings.TrimSuffix(strings.Repeat(`{"author": {"login": "mona"}},`, to-from), ","))
		}))
		defer server.Close()
		gh := github.NewClient(nil)
		gh.BaseURL, _ = url.Parse(server.URL + "/")
		counted := tally{head: "bbb", need: 1, approved: []string{"mona", "olga"}}
		m := &store.Mission{Owner: "octavia", Name: "calc", Pull: 1, Head: "aaa"}
		if err := new(Gate).countAuthors(t.Context(), gh, m, &counted); err != nil {
			t.Fatal(err)
		}
		if len(counted.approved) != 1 || (len(counted.waits) > 0) != waits {
			t.Errorf("with %d commits: approved by %v, waits for %q", listed, counted.approved, counted.waits)
		}
	}
}
