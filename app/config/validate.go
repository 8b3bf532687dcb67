package config

import (
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// minSecret is the least length of a webhook secret in bytes: 128 bits of a random one in hex are 32, and anything under
// 16 can be guessed or is a word.
const minSecret = 16

// minPassword is the least length of a password that nothing slows the guessing of.
const minPassword = 12

func (c *Config) validate() problems {
	found := new(problems)
	if c.StateDir != "" && !filepath.IsAbs(c.StateDir) {
		found.add("SANDPIPER_STATE_DIR", fmt.Sprintf("%q is not an absolute path", c.StateDir), "set it to a path that starts with /")
	}
	if c.DatabaseURL != "" && databasePath(c.DatabaseURL) == "" {
		// The value is not repeated: the address of a database server may hold a password.
		found.add("DATABASE_URL", "it names neither a SQLite nor a PostgreSQL database", "unset it, or set it to sqlite:/absolute/path or postgres://user@host/name")
	}
	if _, err := url.Parse(c.DatabaseURL); err != nil && strings.HasPrefix(c.DatabaseURL, "postgres") {
		found.add("DATABASE_URL", "it is no address", "write characters of a password that are neither letters nor digits as %25 for %")
	}
	checkListen(found, "SANDPIPER_LISTEN", c.Listen, "7081")
	checkListen(found, "SANDPIPER_OPS_LISTEN", c.OpsListen, "7082")
	if n := len(c.AdminPassword.Reveal()); n > 0 && n < minPassword {
		found.add("SANDPIPER_ADMIN_PASSWORD", fmt.Sprintf("it has %d bytes", n), fmt.Sprintf("use at least %d: openssl rand -hex 16", minPassword))
	}
	checkURL(found, "SANDPIPER_GITHUB_URL", c.GitHubURL, true)
	checkURL(found, "SANDPIPER_GITHUB_API_URL", c.GitHubAPIURL, true)
	if c.PublicURL != "" {
		checkURL(found, "SANDPIPER_PUBLIC_URL", c.PublicURL, false)
	}
	c.validateApp(found)
	// GitHub's label names have at most 50 characters.
	if c.Label == "" || strings.TrimSpace(c.Label) != c.Label || utf8.RuneCountInString(c.Label) > 50 {
		found.add("SANDPIPER_LABEL", fmt.Sprintf("%q is no label name", c.Label), "set it to a name of 1 to 50 characters without spaces around it")
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		found.add("SANDPIPER_LOG_FORMAT", fmt.Sprintf("%q is not a format", c.LogFormat), "set it to text or json")
	}
	for _, path := range c.SystemPaths {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			found.add("SANDPIPER_SYSTEM_PATHS", fmt.Sprintf("%q is not an absolute path below the root", path), "list paths such as /opt/toolchain")
		}
	}
	c.Boundary.validate(found)
	c.validateNumbers(found)
	return *found
}

func (c *Config) validateApp(found *problems) {
	if c.AppID < 0 {
		found.add("SANDPIPER_APP_ID", "it is negative", "copy the App ID from the App's settings page at GitHub")
	}
	if !c.PrivateKey.IsZero() {
		if block, _ := pem.Decode([]byte(c.PrivateKey.Reveal())); block == nil {
			name := "SANDPIPER_PRIVATE_KEY"
			if c.PrivateKeyFile != "" {
				name = "SANDPIPER_PRIVATE_KEY_FILE"
			}
			found.add(name, "it holds no PEM key", "use the whole .pem file that GitHub made, from -----BEGIN to -----END")
		}
	}
	for i, secret := range c.WebhookSecrets {
		if n := len(secret.Reveal()); n < minSecret {
			found.add("SANDPIPER_WEBHOOK_SECRETS", fmt.Sprintf("secret %d has %d bytes; a guessed secret lets anybody command the bot", i+1, n),
				fmt.Sprintf("use at least %d bytes: openssl rand -hex 32", minSecret))
		}
	}
}

func (c *Config) validateNumbers(found *problems) {
	if c.Workers < 1 {
		found.add("SANDPIPER_WORKERS", fmt.Sprintf("%d missions at a time are none", c.Workers), "set it to 1 or more")
	}
	for _, n := range []struct {
		name  string
		value int64
		least int64
		like  string
	}{
		{"SANDPIPER_MISSIONS_PER_REPOSITORY", int64(c.PerRepository), 1, "4"},
		{"SANDPIPER_MISSIONS_PER_INSTALLATION", int64(c.PerInstallation), 1, "20"},
		{"SANDPIPER_SWEEP_EVERY", int64(c.SweepEvery), int64(time.Second), "3m"},
		{"SANDPIPER_WRITE_PACE", int64(c.WritePace), 0, "1s, or 0 for a GitHub that is not GitHub's own"},
		{"SANDPIPER_RETENTION", int64(c.Retention), 0, "168h"},
		{"SANDPIPER_LIMIT_PROCS", int64(c.LimitProcs), 1, "1024"},
		{"SANDPIPER_LIMIT_MEMORY", int64(c.LimitMemory), 1, "4GiB"},
		{"SANDPIPER_LIMIT_DISK", int64(c.LimitDisk), 1, "4GiB"},
		{"SANDPIPER_LIMIT_OUTPUT", int64(c.LimitOutput), 1, "64MiB"},
		{"SANDPIPER_LIMIT_FILES", int64(c.LimitFiles), 1, "200000"},
		{"SANDPIPER_LIMIT_WALL", int64(c.LimitWall), 1, "1h"},
	} {
		if n.value < n.least {
			found.add(n.name, "it is too little to work with", "set it to something like "+n.like)
		}
	}
}

// NeedGitHub says what is missing to speak to GitHub as the App; nil when nothing is. Sandboxes on a local repository
// need none of it, so Load does not ask.
func (c *Config) NeedGitHub() error {
	var missing problems
	if c.AppID == 0 {
		missing.add("SANDPIPER_APP_ID", "it is not set", "let `sandpiper setup` make the App, or copy the App ID from the App's settings page at GitHub")
	}
	if c.PrivateKey.IsZero() {
		missing.add("SANDPIPER_PRIVATE_KEY_FILE", "there is no private key", "set it to the path of the .pem file that GitHub made, or SANDPIPER_PRIVATE_KEY to its content")
	}
	if len(c.WebhookSecrets) == 0 {
		missing.add("SANDPIPER_WEBHOOK_SECRETS", "it is empty; without a secret anybody could command the bot",
			"make one with openssl rand -hex 32, and set it here and in the App's settings at GitHub")
	}
	if len(missing) > 0 {
		return &Error{Problems: missing}
	}
	return nil
}

// checkURL holds addresses to https, because tokens travel to them. On loopback http is fine.
func checkURL(found *problems, name, value string, tokens bool) {
	u, err := url.Parse(value)
	switch {
	case err != nil:
		// The value is not repeated: what cannot be read may hold a password.
		found.add(name, "it is not an http or https address", "set it to something like https://github.example.com")
	case u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		found.add(name, fmt.Sprintf("%q is not an http or https address", value), "set it to something like https://github.example.com")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		// The value is not repeated: it may hold a password.
		found.add(name, "it holds a user, a query or a fragment", "leave only scheme, host and path")
	case tokens && u.Scheme == "http" && !isLoopback(u.Hostname()):
		found.add(name, "tokens would travel unencrypted to "+u.Host, "use https; http is for loopback only")
	}
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && addr.IsLoopback())
}

func checkListen(found *problems, name, value, port string) {
	if host, p, err := net.SplitHostPort(value); err != nil || !isPort(p) || strings.Contains(host, "/") {
		found.add(name, fmt.Sprintf("%q is not host:port", value), "set it to something like 127.0.0.1:"+port+", or :"+port+" for every address")
	}
}

func isPort(s string) bool {
	_, err := strconv.ParseUint(s, 10, 16)
	return err == nil
}

// databasePath is the file that a sqlite: address names, or a postgres: address as it is; empty for anything else.
func databasePath(address string) string {
	if strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://") {
		return address
	}
	path, ok := strings.CutPrefix(address, "sqlite:")
	if !ok {
		return ""
	}
	path = strings.TrimPrefix(path, "//")
	if !filepath.IsAbs(path) || strings.ContainsAny(path, "?#") {
		return ""
	}
	return path
}
