// Package redact keeps credentials out of everything that is written for others: logs, comments, checks, files.
//
// A Secret is a credential that does not print itself. A Redactor knows the credentials in use and takes them out of
// text, in whole or in part, and also what only looks like one. It must not decide what is allowed to be written: it
// is the last net, not the policy. It knows nothing of who uses a credential or where it comes from.
package redact

import (
	"crypto/subtle"
	"fmt"
	"log/slog"
)

// Mark stands where a secret was.
const Mark = "[secret]"

// Secret holds a credential. However it is printed, logged or marshalled, it shows Mark; only Reveal gives the value.
// The zero value is the empty secret.
type Secret struct{ value string }

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value. Call it where the value is handed over, and nowhere else.
func (s Secret) Reveal() string { return s.value }

// IsZero says whether there is no value.
func (s Secret) IsZero() bool { return s.value == "" }

// Equal compares in constant time for values of one length.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.value), []byte(other.value)) == 1
}

func (s Secret) String() string   { return Mark }
func (s Secret) GoString() string { return Mark }

// Format catches every verb: %x of a struct would otherwise print its fields.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(Mark)) }

// MarshalText and MarshalJSON let a structure that holds a secret be written out without it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(Mark), nil }
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Mark + `"`), nil }

// UnmarshalText reads a value as settings and environment hold it.
func (s *Secret) UnmarshalText(text []byte) error {
	s.value = string(text)
	return nil
}

// LogValue is for log/slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Mark) }
