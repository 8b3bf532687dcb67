package installation_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	gh "github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/fixtures/github"
)

func TestSurvey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, all())
	for _, name := range []string{"octo/more", "octo/old"} {
		_, err := w.double.AddRepo(name, github.RepoOptions{})
		must(t, err)
	}
	must(t, w.double.ArchiveRepo("octo/old", true))
	ids, err := w.app.Installations(t.Context())
	if err != nil || len(ids) != 1 {
		t.Fatalf("installations %v, %v", ids, err)
	}
	sad := errors.New("a repository that cannot be read")
	var visited []string
	err = w.app.Survey(t.Context(), ids[0], func(ctx context.Context, client *gh.Client, repo installation.Repo) error {
		visited = append(visited, repo.Name)
		if _, _, err := client.Issues.ListByRepo(ctx, repo.Owner, repo.Name, nil); err != nil {
			return err
		}
		if _, _, err := client.Issues.CreateComment(ctx, repo.Owner, repo.Name, 1, &gh.IssueComment{Body: gh.String("x")}); err == nil {
			t.Error("the token of a survey can write")
		}
		return sad
	})
	if !errors.Is(err, sad) {
		t.Errorf("error %v, want that of the visits", err)
	}
	slices.Sort(visited)
	if diff := cmp.Diff([]string{"calc", "more", "other"}, visited); diff != "" {
		t.Errorf("visited (-want +got):\n%s", diff)
	}
	must(t, w.double.Suspend(ids[0]))
	if ids, err := w.app.Installations(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("installations while suspended: %v, %v", ids, err)
	}
}
