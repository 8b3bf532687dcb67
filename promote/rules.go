package promote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/google/go-github/v60/github"
)

// Rule is a rule of a repository's rulesets that is in force for a branch, as far as a promotion has to do with it
// (https://docs.github.com/rest/repos/rules#get-rules-for-a-branch).
type Rule struct {
	Type       string `json:"type"`
	Ruleset    int64  `json:"ruleset_id"`
	Parameters struct {
		Name     string `json:"name"`
		Negate   bool   `json:"negate"`
		Operator string `json:"operator"` // starts_with, ends_with, contains, regex
		Pattern  string `json:"pattern"`
	} `json:"parameters"`
}

// Rules are the rules for the base branch and for a branch of the bot's own.
type Rules struct{ Base, Own []Rule }

// ReadRules reads the rules in force, those that the App may pass left out. They are rulesets: the classic protection of
// branches is shown to administrators only (https://docs.github.com/rest/branches/branch-protection), which the App is not,
// so that what it forbids is found in the push.
func ReadRules(ctx context.Context, gh *github.Client, r Request) (Rules, error) {
	base, err := ReadBaseRules(ctx, gh, r)
	if err != nil {
		return Rules{}, err
	}
	own, err := branchRules(ctx, gh, r, BranchName(r.Issue, r.Title, 1))
	return Rules{Base: base, Own: own}, err
}

// ReadBaseRules is ReadRules for the base branch alone.
func ReadBaseRules(ctx context.Context, gh *github.Client, r Request) ([]Rule, error) {
	return branchRules(ctx, gh, r, r.Base)
}

// branchRules by hand, since go-github v60 does not take a branch with a slash and drops rules that it does not know.
func branchRules(ctx context.Context, gh *github.Client, r Request, branch string) ([]Rule, error) {
	var all, own []Rule
	for page := 1; page > 0; {
		request, err := gh.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/rules/branches/%s?per_page=100&page=%d", r.Owner, r.Repo, url.PathEscape(branch), page), nil)
		if err != nil {
			return nil, fmt.Errorf("rules of branch %s: %w", branch, err)
		}
		var some []Rule
		response, err := gh.Do(ctx, request, &some)
		if response != nil && (response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusForbidden) {
			return nil, nil // a plan or a server without rulesets
		}
		if err != nil {
			return nil, fmt.Errorf("rules of branch %s: %w", branch, err)
		}
		all, page = append(all, some...), response.NextPage
	}
	passes := map[int64]bool{}
	for _, rule := range all {
		if _, asked := passes[rule.Ruleset]; !asked && rule.matters() {
			passes[rule.Ruleset] = mayPass(ctx, gh, r, rule.Ruleset)
		}
		if rule.matters() && !passes[rule.Ruleset] {
			own = append(own, rule)
		}
	}
	return own, nil
}

// matters says whether a rule can keep the bot from pushing, or bears on its commits.
func (r Rule) matters() bool {
	return r.Type == "creation" || r.Type == "update" || r.Type == "required_signatures" || strings.HasSuffix(r.Type, "_pattern")
}

// mayPass asks whether the App is among those that a ruleset does not bind. Not being told means no.
func mayPass(ctx context.Context, gh *github.Client, r Request, ruleset int64) bool {
	request, err := gh.NewRequest(http.MethodGet, fmt.Sprintf("repos/%s/%s/rulesets/%d", r.Owner, r.Repo, ruleset), nil)
	if err != nil {
		return false
	}
	var set struct {
		Can string `json:"current_user_can_bypass"`
	}
	_, err = gh.Do(ctx, request, &set)
	return err == nil && (set.Can == "always" || set.Can == "exempt")
}

// Signatures says whether commits have to be signed.
func (r Rules) Signatures() bool {
	for _, rule := range append(append([]Rule{}, r.Base...), r.Own...) {
		if rule.Type == "required_signatures" {
			return true
		}
	}
	return false
}

// Unmet are the rules that a promotion of the request cannot meet, in sentences for people. Rules on what changes are not
// among them: what changes is not known before the agent has worked.
func (r Rules) Unmet(req Request) []string {
	var unmet []string
	add := func(format string, args ...any) { unmet = append(unmet, fmt.Sprintf(format, args...)) }
	name := BranchName(req.Issue, req.Title, 1)
	for _, rule := range r.Own {
		switch rule.Type {
		case "creation":
			add("a ruleset lets the App create no branch %q; let it bypass that rule, or take sandpiper/** out", name)
		case "update":
			add("a ruleset lets the App push to no branch %q; let it bypass that rule, or take sandpiper/** out", name)
		case "branch_name_pattern":
			rule.judge(name, "the branch "+name, add)
		}
	}
	spec := req.commitSpec(func(s string) string { return s })
	committer := spec.Committer.Email
	if req.API {
		committer = "noreply@github.com"
	}
	// Those of the base bind the commits of the pull request once they are merged.
	for _, rule := range append(append([]Rule{}, r.Base...), r.Own...) {
		switch rule.Type {
		case "commit_message_pattern":
			rule.judge(spec.Message, "the message of a commit (its first line can be set by promote.title in the policy, a sign-off by promote.signoff)", add)
		case "commit_author_email_pattern":
			rule.judge(spec.Author.Email, "the author's address "+spec.Author.Email, add)
		case "committer_email_pattern":
			rule.judge(committer, "the committer's address "+committer, add)
		case "required_signatures":
			if !req.API {
				add("commits have to be signed, and the policy says promote.transport: push")
			}
		}
	}
	return unmet
}

// judge adds a sentence if the text does not meet a pattern. GitHub's expressions are RE2, as ours.
func (r Rule) judge(text, what string, add func(string, ...any)) {
	p := r.Parameters
	var meets bool
	switch p.Operator {
	case "starts_with":
		meets = strings.HasPrefix(text, p.Pattern)
	case "ends_with":
		meets = strings.HasSuffix(strings.TrimSpace(text), p.Pattern)
	case "contains":
		meets = strings.Contains(text, p.Pattern)
	case "regex":
		re, err := regexp.Compile(p.Pattern)
		if err != nil {
			return // GitHub will say so in the push
		}
		meets = re.MatchString(text)
	default:
		return
	}
	if meets == p.Negate {
		must := map[bool]string{false: "must", true: "must not"}[p.Negate]
		add("%s %s be as a ruleset says: %s %q", what, must, strings.ReplaceAll(p.Operator, "_", " "), p.Pattern)
	}
}

// Refusal makes one error of what cannot be met; nil when all can.
func Refusal(unmet []string) error {
	if len(unmet) == 0 {
		return nil
	}
	return &ErrRefused{Reason: strings.Join(unmet, "; "), Err: errors.New("rules of the repository")}
}
