package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Path is where the policy lies in a repository. AltPath is read when there is nothing at Path.
const (
	Path    = ".github/sandpiper.yml"
	AltPath = ".github/sandpiper.yaml"
)

// DefaultCheckTimeout is the time that a check may take when the file does not say.
const DefaultCheckTimeout = 20 * time.Minute

// Profiles are the names of coding agents that may stand where a command can.
func Profiles() []string {
	return []string{"claude", "codex", "opencode", "gemini", "copilot", "pi"}
}

// Policy is what is in force for one repository at one commit.
type Policy struct {
	Agent    Agent    `json:"agent"`
	Backend  string   `json:"backend,omitempty"` // overlay, worktree, agentfs, container, kubernetes; empty: the bot's default
	Setup    []Step   `json:"setup,omitempty"`
	Checks   []Check  `json:"checks"` // nil: found from what the repository is; empty: none, on purpose
	Network  []string `json:"network,omitempty"`
	Protect  []string `json:"protect"` // globs of paths that need a human
	Budget   Budget   `json:"budget"`
	Review   Review   `json:"review"`
	Triggers Triggers `json:"triggers"`
	Gates    Gates    `json:"gates,omitempty"`
	Promote  Promote  `json:"promote"`
	Trust    Trust    `json:"trust"`
	Context  Context  `json:"context"`

	file string              // the name that Parse was given; empty for Default
	at   map[string]Position // where each key that the file sets stands, by its dotted path
}

// Agent is what works on the task: a named profile, or a command. Both empty: the agent that the bot was set up with.
type Agent struct {
	Profile string   `json:"profile,omitempty"`
	Command []string `json:"command,omitempty"` // argv; one that was written as a text is run by sh -c
}

// IsZero says that the bot's own default agent is meant.
func (a Agent) IsZero() bool { return a.Profile == "" && len(a.Command) == 0 }

// String is the agent as a person would write it.
func (a Agent) String() string {
	switch {
	case a.Profile != "":
		return a.Profile
	case len(a.Command) == 3 && a.Command[0] == "sh" && a.Command[1] == "-c":
		return a.Command[2]
	}
	return strings.Join(a.Command, " ")
}

// Step prepares the workspace before the agent starts, such as a download of dependencies.
type Step struct {
	Run   string   `json:"run"`             // for sh -c
	Needs []string `json:"needs,omitempty"` // globs: the step is run again only when one of these files changes
}

// Check is a command that judges the result.
type Check struct {
	Name     string        `json:"name"` // of the Check Run
	Run      string        `json:"run"`  // for sh -c
	Dir      string        `json:"dir,omitempty"`
	Annotate string        `json:"annotate,omitempty"` // go, generic, eslint, …: see annotateKinds; empty: all are tried
	Required bool          `json:"required"`
	Timeout  time.Duration `json:"timeout"` // nanoseconds in JSON
}

// Budget is how much one mission may take.
type Budget struct {
	Time   time.Duration `json:"time"`   // of one agent run; nanoseconds in JSON
	Rounds int           `json:"rounds"` // runs of one mission
	Money  Money         `json:"money"`  // by list prices, as the broker counts it; agents report their own
	Output Size          `json:"output"` // of one agent run
}

// Review is what a pull request needs before a human merges it. The bot never does.
type Review struct {
	Approvals int  `json:"approvals"`
	Requester bool `json:"requester"` // whether the approval of the person who asked for the work counts
}

// Triggers says who may start a mission, and by which labels.
type Triggers struct {
	Who    string   `json:"who"` // write, maintain or admin: the least permission on the repository
	Labels []string `json:"labels"`
}

// Match says whether a label triggers. GitHub holds label names unique without regard to case, so that "Agent" is "agent".
func (t Triggers) Match(label string) bool {
	return slices.ContainsFunc(t.Labels, func(l string) bool { return strings.EqualFold(l, label) })
}

// Allows says whether a permission (admin, maintain, write, triage, read, none) is enough to trigger.
func (t Triggers) Allows(permission string) bool {
	order := []string{"write", "maintain", "admin"}
	have, need := slices.Index(order, permission), slices.Index(order, t.Who)
	return have >= 0 && need >= 0 && have >= need
}

// Trust says what text by others needs. It can ask for more than the bot does, never for less: whose text the bot itself takes for an
// outsider's stays one.
type Trust struct {
	Colleagues string `json:"colleagues"` // write, maintain or admin: the least permission of everybody whose text is no outsider's
	Outsiders  string `json:"outsiders"`  // contain: their text needs the stronger boundary; refuse: nothing is done with it
}

// What is done with text by outsiders.
const (
	Contain = "contain"
	Refuse  = "refuse"
)

// Context names files of the repository, by globs, that the agent is given as read-only copies.
type Context struct {
	Skills []string `json:"skills,omitempty"`
	Specs  []string `json:"specs,omitempty"`
	Docs   []string `json:"docs,omitempty"`
}

// Default is the policy of a repository without a file.
func Default() *Policy {
	return &Policy{
		Protect: []string{
			".github/**", "CODEOWNERS", "docs/CODEOWNERS",
			// What steers agents, and what runs on people's machines by itself.
			"**/AGENTS.md", "**/CLAUDE.md", "**/GEMINI.md", ".claude/**", ".codex/**", ".gemini/**", ".opencode/**", ".cursor/**", ".cursorrules",
			".mcp.json", ".vscode/**", ".devcontainer/**", ".husky/**", ".githooks/**", ".pre-commit-config.yaml", "lefthook.yml", ".envrc", ".gitattributes",
		},
		Budget:   Budget{Time: 40 * time.Minute, Rounds: 5, Money: 5 * usd, Output: 50 * megabyte},
		Review:   Review{Approvals: 1},
		Triggers: Triggers{Who: "write", Labels: []string{"sandpiper"}},
		Trust:    Trust{Colleagues: "write", Outsiders: Contain},
		Promote:  Promote{Reviewers: true},
	}
}

// Digest is "sha256:" and the hex digest of what is in force: two files that mean the same have the same digest.
func (p *Policy) Digest() string {
	data, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("policy cannot be encoded: %v", err)) // made of texts, numbers and lists only
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Protects says whether a path needs a human, and by which glob.
func (p *Policy) Protects(path string) (glob string, ok bool) {
	for _, g := range p.Protect {
		if sandbox.MatchPath(g, path) {
			return g, true
		}
	}
	return "", false
}
