package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"

	"github.com/caarlos0/env/v10"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Load reads the settings from environ, which has the form of os.Environ. The error is an *Error that lists everything
// that is wrong; the Config that comes with one is good for Describe and for nothing else.
func Load(environ []string) (*Config, error) {
	return load(environ, os.Geteuid())
}

func load(environ []string, uid int) (*Config, error) {
	vars := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			vars[name] = value
		}
	}
	c := &Config{origin: make(map[string]string)}
	problems := c.parse(vars)
	c.fill(vars, uid, &problems)
	problems = problems.and(c.validate())
	if len(problems) > 0 {
		return c, &Error{Problems: problems}
	}
	return c, nil
}

// parse lets env fill the fields and words its errors anew: they name fields, and people set variables.
func (c *Config) parse(vars map[string]string) problems {
	known := make(map[string]bool)
	variable := make(map[string]string)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if name := f.Tag.Get("env"); name != "" {
			known[name] = true
			variable[f.Name] = name
			if vars[name] != "" {
				c.origin[name] = "environment"
			}
		}
	}
	for name := range vars {
		if strings.HasPrefix(name, "SANDPIPER_") && !known[name] {
			c.unknown = append(c.unknown, name)
		}
	}
	sort.Strings(c.unknown)

	var found problems
	err := env.ParseWithOptions(c, env.Options{
		Environment: vars,
		FuncMap: map[reflect.Type]env.ParserFunc{
			reflect.TypeFor[redact.Secret](): func(v string) (any, error) { return redact.NewSecret(strings.TrimSpace(v)), nil },
		},
	})
	var all env.AggregateError
	if !errors.As(err, &all) {
		if err != nil {
			found.add("environment", err.Error(), "this is a bug in sandpiper; please report it")
		}
		return found
	}
	for _, err := range all.Errors {
		var bad env.ParseError
		if !errors.As(err, &bad) {
			found.add("environment", err.Error(), "this is a bug in sandpiper; please report it")
			continue
		}
		name := variable[bad.Name]
		found.add(name, fmt.Sprintf("%q is not %s", vars[name], form(bad.Type)), "set it to something like "+example(bad.Type))
	}
	return found
}

// fill computes the defaults that depend on the machine or on other settings.
func (c *Config) fill(vars map[string]string, uid int, found *problems) {
	if c.StateDir == "" {
		switch {
		case uid == 0:
			c.StateDir = "/var/lib/sandpiper"
		case filepath.IsAbs(vars["XDG_STATE_HOME"]):
			c.StateDir = filepath.Join(vars["XDG_STATE_HOME"], "sandpiper")
		case filepath.IsAbs(vars["HOME"]):
			c.StateDir = filepath.Join(vars["HOME"], ".local", "state", "sandpiper")
		default:
			found.add("SANDPIPER_STATE_DIR", "there is no HOME to take a default from", "set it to an absolute path")
		}
	}
	c.deriveURLs()
	c.readKey(found)
	c.readApp(found)
	c.readModels(found)
}

// deriveURLs completes the two addresses of GitHub where only one is given.
func (c *Config) deriveURLs() {
	c.GitHubURL = strings.TrimRight(c.GitHubURL, "/")
	c.GitHubAPIURL = strings.TrimRight(c.GitHubAPIURL, "/")
	c.PublicURL = strings.TrimRight(c.PublicURL, "/")
	switch {
	case c.GitHubURL == "" && c.GitHubAPIURL == "":
		c.GitHubURL, c.GitHubAPIURL = "https://github.com", "https://api.github.com"
	case c.GitHubAPIURL == "":
		c.GitHubAPIURL = apiOf(c.GitHubURL)
		c.origin["SANDPIPER_GITHUB_API_URL"] = "from SANDPIPER_GITHUB_URL"
	case c.GitHubURL == "":
		c.GitHubURL = strings.TrimSuffix(strings.Replace(c.GitHubAPIURL, "://api.", "://", 1), "/api/v3")
		c.origin["SANDPIPER_GITHUB_URL"] = "from SANDPIPER_GITHUB_API_URL"
	}
}

// apiOf is where GitHub's products have their API: https://docs.github.com/en/enterprise-server/rest/quickstart for
// Enterprise Server, and an api. host for github.com and for ghe.com, Enterprise Cloud with data residency.
func apiOf(web string) string {
	if host, ok := strings.CutPrefix(web, "https://"); ok && (host == "github.com" || strings.HasSuffix(host, ".ghe.com")) {
		return "https://api." + host
	}
	return web + "/api/v3"
}

func (c *Config) readKey(found *problems) {
	if c.PrivateKeyFile != "" {
		if !c.PrivateKey.IsZero() {
			found.add("SANDPIPER_PRIVATE_KEY_FILE", "SANDPIPER_PRIVATE_KEY is set as well", "set one of the two")
			return
		}
		pem, err := os.ReadFile(c.PrivateKeyFile)
		if err != nil {
			found.add("SANDPIPER_PRIVATE_KEY_FILE", err.Error(), "give the path of the .pem file that GitHub made, readable by the bot's user")
			return
		}
		c.PrivateKey = redact.NewSecret(string(pem))
		c.origin["SANDPIPER_PRIVATE_KEY"] = "file"
	}
	// Files of environment variables (docker compose, systemd) hold one line per variable, so keys are often written
	// in one line.
	if key := c.PrivateKey.Reveal(); strings.Contains(key, `\n`) {
		c.PrivateKey = redact.NewSecret(strings.ReplaceAll(key, `\n`, "\n"))
	}
}
