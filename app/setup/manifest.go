package setup

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
)

// Manifest is what app.yml says of the App.
type Manifest struct {
	Name        string            `yaml:"name" json:"name"`
	Description string            `yaml:"description" json:"description"`
	Public      bool              `yaml:"public" json:"public"`
	OAuth       bool              `yaml:"request_oauth_on_install" json:"request_oauth_on_install"`
	Permissions map[string]string `yaml:"default_permissions" json:"default_permissions"` // read or write, by GitHub's names
	Events      []string          `yaml:"default_events" json:"default_events"`

	// Of one bot, and so not in app.yml.
	URL      string `yaml:"-" json:"url"`          // of its home page, for people
	Redirect string `yaml:"-" json:"redirect_url"` // where GitHub sends the browser with the code
	Hook     struct {
		URL    string `json:"url"`
		Active bool   `json:"active"`
	} `yaml:"-" json:"hook_attributes"`
}

// ParseManifest reads app.yml.
func ParseManifest(data []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := yaml.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("app.yml: %w", err)
	}
	if m.Name == "" || len(m.Permissions) == 0 || len(m.Events) == 0 {
		return nil, errors.New("app.yml: it lacks the name, the permissions or the events")
	}
	return m, nil
}
