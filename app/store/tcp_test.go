package store

import (
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/fixtures/postgres"
)

// TestPostgresOverTCP with a password, as a server of its own machine is reached; who is not let in does not read the password in the log.
func TestPostgresOverTCP(t *testing.T) {
	t.Parallel()
	remote := postgres.Server{TCP: true}
	t.Cleanup(remote.Stop)
	address := remote.Database(t)
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	testOneOpenMissionForAnIssue(t, s)
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	_, password, _ := strings.Cut(strings.TrimPrefix(address, "postgres://"), ":")
	password, host, _ := strings.Cut(password, "@")
	_, err = Open(t.Context(), "postgres://test:wr0ng"+password+"@"+host)
	if err == nil || !strings.Contains(err.Error(), "password authentication failed") || strings.Contains(err.Error(), password) {
		t.Errorf("with a wrong password: %v", err)
	}
}
