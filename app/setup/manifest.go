package setup

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
)

// Manifest is what app.yml says of the App.
type Manifest struct {
	Name        string            `yaml:"name"`
	Permissions map[string]string `yaml:"default_permissions"` // read or write, by GitHub's names
	Events      []string          `yaml:"default_events"`
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
