package installation_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// TestMinting has what GitHub answers when it gives no token, and TestCase29 what it answers in the middle of the work.
func TestMinting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer reply
		want   error
		text   string
	}{
		{"Suspended", reply{status: 403, body: `{"message":"This installation has been suspended"}`}, installation.ErrSuspended, ""},
		{"RepositoryGone", reply{status: 422, body: `{"message":"There is at least one repository that does not exist or is not accessible to the parent installation."}`}, installation.ErrWithdrawn, ""},
		{"InstallationGone", reply{status: 404, body: `{"message":"Not Found"}`}, installation.ErrWithdrawn, ""},
		{"PermissionNotGranted", reply{status: 422, body: `{"message":"The permissions requested are not granted to this installation."}`}, nil, "issues: write, metadata: read, pull_requests: write"},
		{"BadKey", reply{status: 401, body: `{"message":"A JSON web token could not be decoded"}`}, installation.ErrUnauthorized, ""},
		{"ClockBehind", reply{status: 401, header: map[string]string{"Date": "Sat, 01 Jan 2000 00:05:00 GMT"}, body: `{"message":"'Expiration time' claim ('exp') is too far in the future"}`}, installation.ErrUnauthorized, "clock of this machine is 5m0s behind GitHub's"},
		{"ClockAhead", reply{status: 401, header: map[string]string{"Date": "Fri, 31 Dec 1999 23:00:00 GMT"}}, installation.ErrUnauthorized, "clock of this machine is 1h0m0s ahead of GitHub's"},
		{"NotOffered", reply{status: 501, body: `{"message":"Not Implemented"}`}, installation.ErrUnsupported, ""},
		{"Limited", reply{status: 429, header: map[string]string{"Retry-After": "60"}}, nil, "takes no calls of this installation for 1m0s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				s.on("POST /app/installations/5/access_tokens", tt.answer)
				s.on("GET /app/installations/5", reply{status: 200, body: `{"id":5,"permissions":{"issues":"read","contents":"write"}}`})
				_, err := app.Client(t.Context(), calc, installation.Issues)
				var e *gh.ErrorResponse
				if err == nil || !errors.As(err, &e) || e.Response.StatusCode != tt.answer.status {
					t.Fatalf("got %v, want an error over GitHub's answer", err)
				}
				if tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q, want it to say %q", err, tt.text)
				}
			})
		})
	}
}

func TestSuspendedIsNotAskedAgainForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on("POST /app/installations/5/access_tokens", reply{status: 403, body: `{"message":"This installation has been suspended"}`})
		for range 10 {
			if _, err := app.Client(t.Context(), calc, installation.Read); !errors.Is(err, installation.ErrSuspended) {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Minute)
		_, _ = app.Client(t.Context(), calc, installation.Read)
		app.Forget(calc.InstallationID)
		_, _ = app.Client(t.Context(), calc, installation.Read)
		if got := len(s.calls); got != 3 {
			t.Errorf("got %d calls, want 3", got)
		}
	})
}

func TestNameThatBelongsToAnotherRepositoryNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on("GET /repos/octo/calc", reply{status: 200, body: `{"id":78}`})
		s.on("DELETE /installation/token", reply{status: 204})
		if _, err := app.Client(t.Context(), calc, installation.Read); !errors.Is(err, installation.ErrWithdrawn) {
			t.Errorf("got %v", err)
		}
		if got := s.work(); len(got) != 1 || !strings.HasSuffix(got[0], "DELETE /installation/token") {
			t.Errorf("the token that nobody got must be revoked, got %v", got)
		}
	})
}

func TestCase29AnswersInTheMiddleOfTheWork(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer reply
		want   error // nil: go-github's error, for the caller
	}{
		{"IssueDeleted", reply{status: 410, body: `{"message":"This issue was deleted"}`}, nil},
		{"Transferred", reply{status: 404, body: `{"message":"Not Found"}`}, nil},
		{"Archived", reply{status: 403, body: `{"message":"Repository was archived so is read-only."}`}, installation.ErrArchived},
		{"Suspended", reply{status: 403, body: `{"message":"This installation has been suspended"}`}, installation.ErrSuspended},
		{"OtherForbidden", reply{status: 403, body: `{"message":"Must have admin rights to Repository."}`}, nil},
		{"NotOffered", reply{status: 501}, installation.ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, app := newScript(t, 0)
				s.on(commentCall, tt.answer)
				err := comment(t, client(t, app))
				var e *gh.ErrorResponse
				if !errors.As(err, &e) || e.Response.StatusCode != tt.answer.status || len(s.work()) != 1 {
					t.Fatalf("got %v after %d calls, want GitHub's answer after one", err, len(s.work()))
				}
				if tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestPermissionThatGitHubNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on(commentCall, reply{
			status: 403, body: `{"message":"Resource not accessible by integration"}`,
			header: map[string]string{"X-Accepted-GitHub-Permissions": "issues=write; pull_requests=write"},
		})
		var permission *installation.ErrPermission
		if err := comment(t, client(t, app)); !errors.As(err, &permission) || permission.Missing != "issues: write; pull_requests: write" {
			t.Errorf("got %v", err)
		}
	})
}

func TestHookOfAServerThatIsNotQuiteGitHub(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on("GET /app/hook/deliveries", reply{status: 404, body: `{"message":"Not Found"}`})
		if _, _, err := app.AppClient().Apps.ListHookDeliveries(t.Context(), nil); !errors.Is(err, installation.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
	})
}

// TestKeyThatIsNotAccepted is known from the call that failed to the one that succeeds.
func TestKeyThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	var status atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	app, err := installation.New(installation.Config{AppID: 1, Key: redact.NewSecret(string(block)), APIURL: server.URL,
		Redactor: redact.New(), Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	for _, tt := range []struct {
		status int32
		want   bool
	}{{200, false}, {401, true}, {503, true}, {200, false}} {
		status.Store(tt.status)
		_, _, _ = app.AppClient().Apps.Get(t.Context(), "")
		if app.Refused() != tt.want {
			t.Errorf("after %d: refused is %t", tt.status, app.Refused())
		}
	}
}
