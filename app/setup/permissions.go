package setup

import (
	"encoding/json"

	"github.com/google/go-github/v60/github"
)

// granted is what an installation grants, by the names that GitHub uses.
func granted(p *github.InstallationPermissions) map[string]string {
	have := make(map[string]string)
	if data, err := json.Marshal(p); err == nil {
		_ = json.Unmarshal(data, &have) // strings only, by the type it was made from
	}
	return have
}
