package standing

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
)

func TestOf(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/repos/o/r/collaborators/ann/permission":
			_, _ = w.Write([]byte(`{"permission": "write", "role_name": "maintain"}`))
		case "/repos/o/r/collaborators/bob/permission":
			_, _ = w.Write([]byte(`{"permission": "read", "role_name": ""}`))
		case "/repos/o/r/collaborators/eve/permission":
			http.Error(w, `{"message": "weather"}`, http.StatusBadGateway)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	gh := github.NewClient(server.Client())
	gh.BaseURL, _ = url.Parse(server.URL + "/")
	for login, want := range map[string]struct {
		Standing Standing
		Write    bool
		Word     string
	}{
		"ann": {Standing{"write", "maintain"}, true, "maintain"},
		"bob": {Standing{"read", ""}, false, "read"},
		"zoe": {Standing{"none", ""}, false, "none"},
		"":    {Standing{}, false, "no"},
	} {
		s, err := Of(t.Context(), gh, installation.Repo{Owner: "o", Name: "r"}, login)
		if err != nil {
			t.Errorf("%s: %v", login, err)
		}
		got := want
		got.Standing, got.Write, got.Word = s, s.MayWrite(), s.Word()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", login, diff)
		}
	}
	if s, err := Of(t.Context(), gh, installation.Repo{Owner: "o", Name: "r"}, "eve"); err == nil {
		t.Errorf("an answer that was none is taken for %+v", s)
	}
}
