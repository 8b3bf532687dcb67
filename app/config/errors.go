package config

import (
	"log/slog"
	"net/netip"
	"reflect"
	"strings"
	"time"
)

// Problem is one setting that is wrong or missing.
type Problem struct {
	Name string // the variable
	What string // what is wrong
	How  string // what to do
}

func (p Problem) String() string { return p.Name + ": " + p.What + "; " + p.How }

// Error is everything that is wrong with the settings.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	if len(lines) == 1 {
		return lines[0]
	}
	return "the settings are not right:\n  " + strings.Join(lines, "\n  ")
}

type problems []Problem

func (p *problems) add(name, what, how string) {
	*p = append(*p, Problem{Name: name, What: what, How: how})
}

// and appends what was found later about settings that had no problem before: one that could not be read is zero, and
// saying so as well would not help.
func (p problems) and(later problems) problems {
	known := make(map[string]bool)
	for _, one := range p {
		known[one.Name] = true
	}
	for _, one := range later {
		if !known[one.Name] {
			p = append(p, one)
		}
	}
	return p
}

// form and example name a type for people.
func form(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "a duration"
	case reflect.TypeFor[Size]():
		return "a size"
	case reflect.TypeFor[slog.Level]():
		return "a log level"
	case reflect.TypeFor[netip.Prefix](), reflect.TypeFor[[]netip.Prefix]():
		return "a network"
	}
	return "a whole number"
}

func example(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "40m, 1s or 168h"
	case reflect.TypeFor[Size]():
		return "512MiB or 4GiB"
	case reflect.TypeFor[slog.Level]():
		return "info"
	case reflect.TypeFor[netip.Prefix](), reflect.TypeFor[[]netip.Prefix]():
		return "10.1.0.0/16"
	}
	return "4"
}
