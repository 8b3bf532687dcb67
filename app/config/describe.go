package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Setting describes one setting for people. Value is never that of a secret.
type Setting struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	Origin      string `json:"origin"` // default, environment, file, app.json, or "from" another setting
	Default     string `json:"default"`
	Description string `json:"description"`
}

// Describe lists every setting in the order of the documentation.
func (c *Config) Describe() []Setting {
	var all []Setting
	value := reflect.ValueOf(c).Elem()
	for _, f := range reflect.VisibleFields(value.Type()) {
		name := f.Tag.Get("env")
		if name == "" {
			continue
		}
		s := Setting{Name: name, Origin: "default", Default: f.Tag.Get("shown"), Description: f.Tag.Get("desc")}
		if s.Default == "" {
			s.Default = f.Tag.Get("envDefault")
		}
		origin, set := c.origin[name]
		if set {
			s.Origin = origin
		}
		// A zero that nobody asked for is "not set".
		if v := value.FieldByIndex(f.Index); set || !v.IsZero() || f.Tag.Get("envDefault") != "" {
			s.Value = withoutPassword(show(v.Interface()))
		}
		all = append(all, s)
	}
	return all
}

// Given says whether a setting was given, and is not at its default.
func (c *Config) Given(name string) bool { return c.origin[name] != "" }

// Warnings are things that work and are probably not what was meant.
func (c *Config) Warnings() []Problem {
	var found problems
	for _, name := range c.unknown {
		how := "unset it"
		if near := c.nearest(name); near != "" {
			how = "did you mean " + near + "?"
		}
		found.add(name, "there is no such setting", how)
	}
	return found
}

// nearest is the setting with the longest common beginning, if that is most of the name.
func (c *Config) nearest(name string) string {
	best, length := "", len("SANDPIPER_")+2
	for _, s := range c.Describe() {
		n := 0
		for n < len(name) && n < len(s.Name) && name[n] == s.Name[n] {
			n++
		}
		if n > length {
			best, length = s.Name, n
		}
	}
	return best
}

func show(v any) string {
	switch v := v.(type) {
	case []redact.Secret:
		shown := make([]string, len(v))
		for i, secret := range v {
			shown[i] = secret.String()
		}
		return strings.Join(shown, ",")
	case []string:
		return strings.Join(v, ",")
	}
	return fmt.Sprint(v)
}

// inQuery are the parameters of a PostgreSQL address that hold a secret
// (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS).
var inQuery = []string{"password", "sslpassword"}

// withoutPassword hides the password of an address, as that of a database may hold one; all of an address that cannot be read.
func withoutPassword(value string) string {
	u, err := url.Parse(value)
	if err != nil && strings.Contains(value, "://") {
		return "[not readable]"
	}
	if err != nil {
		return value
	}
	query, hidden := u.Query(), u.User != nil
	for _, name := range inQuery {
		if query.Has(name) {
			query.Set(name, "xxxxx")
			u.RawQuery, hidden = query.Encode(), true
		}
	}
	if !hidden {
		return value
	}
	return u.Redacted()
}

// Table is the settings as a Markdown table, for the documentation.
func Table() string {
	var b strings.Builder
	b.WriteString("| setting | default | what it is |\n| --- | --- | --- |\n")
	for _, s := range new(Config).Describe() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Name, s.Default, s.Description)
	}
	return b.String()
}
