package installation

import "github.com/google/go-github/v60/github"

// Purpose is what a token is for. It decides the token's permissions.
type Purpose int

// The purposes. None of them can change workflow files or settings of a repository.
const (
	Read    Purpose = iota // contents: read
	Checks                 // checks: write
	Issues                 // issues: write, and pull_requests: write for comments on pull requests
	Promote                // contents: write, pull_requests: write
	Members                // members: read, which an App of ours need not have
)

func (p Purpose) String() string {
	switch p {
	case Read:
		return "read"
	case Checks:
		return "checks"
	case Issues:
		return "issues"
	case Promote:
		return "promote"
	case Members:
		return "members"
	}
	return "unknown purpose"
}

func (p Purpose) permissions() *github.InstallationPermissions {
	read, write := github.String("read"), github.String("write")
	permissions := &github.InstallationPermissions{Metadata: read}
	switch p {
	case Read:
		permissions.Contents = read
	case Checks:
		permissions.Checks = write
	case Issues:
		permissions.Issues, permissions.PullRequests = write, write
	case Promote:
		permissions.Contents, permissions.PullRequests = write, write
	case Members:
		permissions.Members = read
	}
	return permissions
}
