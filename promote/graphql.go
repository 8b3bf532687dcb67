package promote

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/go-github/v60/github"
)

// graphqlErrors are what GitHub answers with status 200 beside the data.
type graphqlErrors []struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (e graphqlErrors) Error() string {
	var all []string
	for _, one := range e {
		all = append(all, strings.TrimSpace(one.Type+" "+one.Message))
	}
	return "GraphQL: " + strings.Join(all, "; ")
}

// is says whether one of the errors is of a type.
func (e graphqlErrors) is(kind string) bool {
	for _, one := range e {
		if one.Type == kind {
			return true
		}
	}
	return false
}

// graphql runs a mutation or query that REST does not have; go-github has none. The address is beside the REST API's:
// api.github.com/graphql, and /api/graphql of a GitHub Enterprise Server whose REST API is at /api/v3.
func graphql(ctx context.Context, gh *github.Client, query string, variables map[string]any, into any) error {
	path := "graphql"
	if strings.HasSuffix(gh.BaseURL.Path, "/api/v3/") {
		path = "../graphql"
	}
	request, err := gh.NewRequest("POST", path, map[string]any{"query": query, "variables": variables})
	if err != nil {
		return fmt.Errorf("GraphQL: %w", err)
	}
	var answer struct {
		Data   any           `json:"data"`
		Errors graphqlErrors `json:"errors"`
	}
	answer.Data = into
	if _, err := gh.Do(ctx, request, &answer); err != nil {
		return fmt.Errorf("GraphQL: %w", err)
	}
	if len(answer.Errors) > 0 {
		return answer.Errors
	}
	return nil
}

const (
	toDraft = `mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`
	toReady = `mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }`
)

// setDraft makes a pull request of ours a draft, or ready, as what is offered now asks for.
func (p *publication) setDraft(ctx context.Context, pull *github.PullRequest, draft bool) error {
	if pull.GetDraft() == draft {
		return nil
	}
	mutation := toReady
	if draft {
		mutation = toDraft
	}
	err := graphql(ctx, p.GitHub, mutation, map[string]any{"id": pull.GetNodeID()}, nil)
	if err != nil {
		return fmt.Errorf("draft state of pull request #%d: %w", pull.GetNumber(), err)
	}
	pull.Draft = &draft
	return nil
}
