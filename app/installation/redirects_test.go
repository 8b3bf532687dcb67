package installation_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// TestRedirects uses real servers: what net/http does with a redirect is the point.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var elsewhere, body bytes.Buffer
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(&elsewhere, r.Method, r.Header.Get("Authorization"))
	}))
	defer other.Close()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("POST /app/installations/5/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"token":"ghs_x_0123456789","expires_at":%q}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	})
	mux.HandleFunc("GET /repos/octo/calc", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"id":77}`) })
	mux.HandleFunc("GET /repos/octo/calc/issues/{n}", func(w http.ResponseWriter, r *http.Request) {
		base := map[string]string{"1": server.URL, "2": other.URL}[r.PathValue("n")]
		http.Redirect(w, r, base+"/repositories/77/issues/1", http.StatusMovedPermanently)
	})
	mux.HandleFunc("GET /repositories/77/issues/1", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"number":1}`) })
	mux.HandleFunc("POST /repos/octo/calc/issues/{n}/comments", func(w http.ResponseWriter, r *http.Request) {
		n := r.PathValue("n")
		base := map[string]string{"1": server.URL, "2": other.URL, "3": server.URL}[n]
		status := map[string]int{"1": http.StatusMovedPermanently, "2": http.StatusTemporaryRedirect, "3": http.StatusSeeOther}[n]
		http.Redirect(w, r, base+"/repositories/77/issues/1/comments", status)
	})
	mux.HandleFunc("POST /repositories/77/issues/1/comments", func(w http.ResponseWriter, r *http.Request) {
		_, _ = body.ReadFrom(r.Body)
		w.WriteHeader(201)
		fmt.Fprint(w, `{"id":9}`)
	})
	app, err := installation.New(installation.Config{AppID: 1, Key: newKey(), APIURL: server.URL})
	must(t, err)
	c := client(t, app)

	if issue, _, err := c.Issues.Get(t.Context(), "octo", "calc", 1); err != nil || issue.GetNumber() != 1 {
		t.Errorf("GET to a renamed repository: got %v, %v", issue, err)
	}
	if _, _, err := c.Issues.Get(t.Context(), "octo", "calc", 2); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("GET to another host: got %v", err)
	}
	note := &gh.IssueComment{Body: gh.String("hello")}
	if made, _, err := c.Issues.CreateComment(t.Context(), "octo", "calc", 1, note); err != nil || made.GetID() != 9 || body.String() != "{\"body\":\"hello\"}\n" {
		t.Errorf("POST to a renamed repository: got %v, %v with body %q", made, err, body.String())
	}
	if _, _, err := c.Issues.CreateComment(t.Context(), "octo", "calc", 2, note); err == nil || !strings.Contains(err.Error(), "another host") {
		t.Errorf("POST to another host: got %v", err)
	}
	if _, _, err := c.Issues.CreateComment(t.Context(), "octo", "calc", 3, note); err == nil || !strings.Contains(err.Error(), "turn POST into GET") {
		t.Errorf("POST that would become a GET: got %v", err)
	}
	if elsewhere.Len() > 0 {
		t.Errorf("the other host was called: %s", elsewhere.String())
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]installation.Config{
		"no key":     {AppID: 1, APIURL: api},
		"not a key":  {AppID: 1, APIURL: api, Key: redact.NewSecret("-----BEGIN X-----")},
		"no id":      {Key: newKey(), APIURL: api},
		"no address": {AppID: 1, Key: newKey(), APIURL: "api"},
	} {
		if _, err := installation.New(c); err == nil {
			t.Errorf("%s: New takes it", name)
		}
	}
}
