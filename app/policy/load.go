package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-github/v60/github"
)

// Source says which file a policy was read from, so that it can be shown and read again.
type Source struct {
	Path   string `json:"path,omitempty"` // empty: there was no file, the defaults are in force
	SHA    string `json:"sha,omitempty"`  // of the blob
	Commit string `json:"commit"`         // that the file was read at
}

func (s Source) String() string {
	if s.Path == "" {
		return fmt.Sprintf("no policy file at %.7s: defaults", s.Commit)
	}
	return fmt.Sprintf("%s at %.7s", s.Path, s.Commit)
}

// Load reads the policy of a repository at one commit (a full object id, never the name of a branch: a branch can move
// between two reads). Without a file the defaults are in force. The error is an *Invalid when there is a file that cannot
// be used; any other error is about reaching GitHub, and says nothing about the policy.
func Load(ctx context.Context, client *github.Client, owner, repo, commit string) (*Policy, Source, error) {
	source := Source{Commit: commit}
	if !isObjectID(commit) {
		return nil, source, fmt.Errorf("policy of %s/%s: %q is no commit id", owner, repo, commit)
	}
	for _, path := range []string{Path, AltPath} {
		data, sha, err := fetch(ctx, client, owner, repo, path, commit)
		if errors.Is(err, errNoFile) {
			continue
		}
		source.Path, source.SHA = path, sha
		if err != nil {
			return nil, source, err
		}
		p, err := Parse(path, data)
		return p, source, err
	}
	p := Default()
	return p, source, nil
}

var errNoFile = errors.New("no such file")

func fetch(ctx context.Context, client *github.Client, owner, repo, path, commit string) (data []byte, sha string, err error) {
	file, dir, resp, err := client.Repositories.GetContents(ctx, owner, repo, path, &github.RepositoryContentGetOptions{Ref: commit})
	if err != nil {
		// A missing commit is a 404 too ("No commit found for the ref …"). It must not look like a missing file, or a
		// mission would run under the defaults instead of the repository's rules.
		var answer *github.ErrorResponse
		if resp != nil && resp.StatusCode == http.StatusNotFound && errors.As(err, &answer) && !strings.HasPrefix(answer.Message, "No commit found") {
			return nil, "", errNoFile
		}
		return nil, "", fmt.Errorf("read %s of %s/%s: %w", path, owner, repo, err)
	}
	if dir != nil || file == nil {
		return nil, "", invalid(path, "this is a directory", "the policy is one file")
	}
	sha = file.GetSHA()
	switch file.GetType() {
	case "file", "":
	case "submodule":
		return nil, sha, invalid(path, "this is a submodule", "the policy is a file of the repository itself")
	case "symlink": // GitHub follows a link to a file of the repository; what it shows as a link leads elsewhere
		return nil, sha, invalid(path, "this is a symbolic link to nowhere in the repository", "the policy is a file")
	default:
		return nil, sha, invalid(path, "this is a "+quote(file.GetType()), "the policy is a file")
	}
	// The contents API gives files above 1 MB without their content: https://docs.github.com/rest/repos/contents
	if file.GetSize() > maxFile || file.GetEncoding() == "none" {
		return nil, sha, invalid(path, fmt.Sprintf("the file has %d bytes; at most %d are read", file.GetSize(), maxFile), "")
	}
	text, err := file.GetContent()
	if err != nil {
		return nil, sha, fmt.Errorf("read %s of %s/%s: %w", path, owner, repo, err)
	}
	return []byte(text), sha, nil
}

func isObjectID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
