package promote

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	double "github.com/sandpiper-bot/sandpiper/fixtures/github"
)

func rules(t *testing.T, text string) (list []Rule) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), &list))
	return list
}

func TestUnmetRules(t *testing.T) {
	t.Parallel()
	pattern := func(kind, operator, pattern, negate string) string {
		return `[{"type":"` + kind + `","parameters":{"operator":"` + operator + `","pattern":"` + pattern + `","negate":` + negate + `}}]`
	}
	for name, tt := range map[string]struct {
		base, own string
		api       bool
		want      string
	}{
		"none":                          {`[]`, `[]`, false, ""},
		"rules that do not matter":      {`[{"type":"pull_request"},{"type":"required_linear_history"},{"type":"non_fast_forward"}]`, `[{"type":"deletion"}]`, false, ""},
		"no new branches":               {`[]`, `[{"type":"creation"}]`, false, "create no branch"},
		"no new branches, on the base":  {`[{"type":"creation"}]`, `[]`, false, ""},
		"signatures, by the API":        {`[{"type":"required_signatures"}]`, `[]`, true, ""},
		"signatures, pushed":            {`[{"type":"required_signatures"}]`, `[]`, false, "have to be signed"},
		"messages with a ticket":        {pattern("commit_message_pattern", "regex", "^[A-Z]+-[0-9]+ ", "false"), `[]`, false, "promote.title"},
		"messages without a word":       {pattern("commit_message_pattern", "contains", "WIP", "true"), `[]`, false, ""},
		"addresses of the company":      {`[]`, pattern("commit_author_email_pattern", "ends_with", "@acme.example", "false"), false, "author's address"},
		"committer, pushed":             {`[]`, pattern("committer_email_pattern", "starts_with", "noreply@github", "false"), false, "committer's address"},
		"committer, by the API":         {`[]`, pattern("committer_email_pattern", "starts_with", "noreply@github", "false"), true, ""},
		"branch names":                  {`[]`, pattern("branch_name_pattern", "starts_with", "feature/", "false"), false, "the branch sandpiper/12-"},
		"a pattern that cannot be read": {pattern("commit_message_pattern", "regex", "(?<a>", "false"), `[]`, false, ""},
		"an operator that is not known": {pattern("commit_message_pattern", "resembles", "x", "false"), `[]`, false, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			r := request()
			r.API = tt.api
			got := strings.Join(Rules{Base: rules(t, tt.base), Own: rules(t, tt.own)}.Unmet(r), "; ")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestReadRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.server.AddRuleset("octavia/calc", "signed", []string{"~DEFAULT_BRANCH"}, "required_signatures", "required_linear_history"))
	must(t, w.server.AddRuleset("octavia/calc", "closed", []string{"refs/heads/sandpiper/**/*"}, "creation"))
	must(t, w.server.ProtectBranch("octavia/calc", "main", double.Protection{PullRequest: true}))
	got, err := ReadRules(t.Context(), w.deps.GitHub, w.req)
	must(t, err)
	types := func(list []Rule) (names []string) {
		for _, r := range list {
			names = append(names, r.Type)
		}
		return names
	}
	if diff := cmp.Diff([][]string{{"required_signatures"}, {"creation"}}, [][]string{types(got.Base), types(got.Own)}); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestRulesOfSeveralPages: a company's rulesets have more rules than a page.
func TestRulesOfSeveralPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.server.AddRuleset("octavia/calc", "many", []string{"~ALL"}, append(slices.Repeat([]string{"deletion"}, 100), "creation")...))
	got, err := ReadBaseRules(t.Context(), w.deps.GitHub, w.req)
	if err != nil || len(got) != 1 || got[0].Type != "creation" {
		t.Errorf("%+v, %v", got, err)
	}
}
