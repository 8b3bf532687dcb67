package installation_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// A mission that ends must not take the token out of the hands of another one's push.
func TestReleaseLeavesGitItsToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, app := newScript(t, 0)
		s.on("DELETE /installation/token", reply{status: 204})
		revoked := func() []string {
			return slices.DeleteFunc(s.work(), func(call string) bool { return !strings.Contains(call, "DELETE") })
		}
		credentials := app.GitCredentials(calc, installation.Promote)
		_, _, err := credentials(t.Context())
		must(t, err)
		<-time.After(4 * time.Minute)
		app.Release(t.Context(), calc)
		<-time.After(5 * time.Minute)
		if got := revoked(); len(got) != 0 {
			t.Errorf("git lost its token: %v", got)
		}
		<-time.After(2 * time.Minute)
		if got := revoked(); len(got) != 1 {
			t.Errorf("got %v, want one revocation after ten minutes", got)
		}

		// With a hold the end is known, and nothing is waited for. Close does not wait either.
		done := app.Hold(calc)
		_, _, err = credentials(t.Context())
		must(t, err)
		app.Release(t.Context(), calc)
		done(t.Context())
		if got := revoked(); len(got) != 2 {
			t.Errorf("got %v, want a revocation when the hold ends", got)
		}
		_, _, err = credentials(t.Context())
		must(t, err)
		app.Release(t.Context(), calc)
		app.Close(t.Context())
		if got := revoked(); len(got) != 3 {
			t.Errorf("got %v, want a revocation by Close", got)
		}
	})
}
