package promote

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/go-github/v60/github"
)

// ErrForbidden says that the App may not do something with GraphQL, which answers with status 200 even so.
var ErrForbidden = errors.New("the App lacks a permission")

const (
	listThreads = `query($owner: String!, $repo: String!, $number: Int!, $after: String) { repository(owner: $owner, name: $repo) { pullRequest(number: $number) {
		reviewThreads(first: 100, after: $after) { pageInfo { hasNextPage endCursor } nodes { id isResolved comments(first: 1) { nodes { databaseId } } } } } } }`
	resolveThread = `mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { isResolved } } }`
)

// threadPages bounds how many hundreds of threads are looked through.
const threadPages = 10

// ResolveThreads marks the review threads that begin with the given comments as resolved, and gives those that are. REST has neither the
// threads nor the mark. An App needs contents: write for it as well, though it touches none (github/gh-aw#35726).
func ResolveThreads(ctx context.Context, gh *github.Client, owner, repo string, number int, roots []int64) (resolved map[int64]bool, err error) {
	wanted := map[int64]bool{}
	for _, id := range roots {
		wanted[id] = true
	}
	resolved = map[int64]bool{}
	variables := map[string]any{"owner": owner, "repo": repo, "number": number, "after": nil}
	for range threadPages {
		var answer threadsAnswer
		if err := graphql(ctx, gh, listThreads, variables, &answer); err != nil {
			return resolved, forbidden(fmt.Errorf("review threads of %d: %w", number, err))
		}
		page := answer.Repository.PullRequest.ReviewThreads
		for _, t := range page.Nodes {
			if len(t.Comments.Nodes) == 0 || !wanted[t.Comments.Nodes[0].DatabaseID] {
				continue
			}
			if !t.IsResolved {
				if err := graphql(ctx, gh, resolveThread, map[string]any{"id": t.ID}, nil); err != nil {
					return resolved, forbidden(fmt.Errorf("resolve a review thread of %d: %w", number, err))
				}
			}
			resolved[t.Comments.Nodes[0].DatabaseID] = true
		}
		if !page.PageInfo.HasNextPage {
			break
		}
		variables["after"] = page.PageInfo.EndCursor
	}
	return resolved, nil
}

type threadsAnswer struct {
	Repository struct {
		PullRequest struct {
			ReviewThreads struct {
				PageInfo struct {
					HasNextPage bool
					EndCursor   string
				}
				Nodes []struct {
					ID         string
					IsResolved bool
					Comments   struct {
						Nodes []struct {
							DatabaseID int64 `json:"databaseId"`
						}
					}
				}
			}
		}
	}
}

// forbidden tells a refusal from other errors.
func forbidden(err error) error {
	var answer graphqlErrors
	if errors.As(err, &answer) && answer.is("FORBIDDEN") {
		return fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return err
}
