package sandbox

import (
	"encoding/json"
	"unicode/utf8"
)

// changeFields are those of a Change, without its methods.
type changeFields Change

// changeRecord is a Change as JSON. Names of files are bytes to git, and text to JSON: one that is no UTF-8 is there twice, once for
// people, with U+FFFD for what is wrong in it, and once as it is.
type changeRecord struct {
	changeFields
	PathBase64 []byte `json:"path_base64,omitempty"`
	FromBase64 []byte `json:"from_base64,omitempty"`
}

// MarshalJSON keeps every byte of the names.
func (c Change) MarshalJSON() ([]byte, error) {
	r := changeRecord{changeFields: changeFields(c)}
	if !utf8.ValidString(c.Path) {
		r.PathBase64 = []byte(c.Path)
	}
	if !utf8.ValidString(c.From) {
		r.FromBase64 = []byte(c.From)
	}
	return json.Marshal(r)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Change) UnmarshalJSON(text []byte) error {
	var r changeRecord
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	*c = Change(r.changeFields)
	if r.PathBase64 != nil {
		c.Path = string(r.PathBase64)
	}
	if r.FromBase64 != nil {
		c.From = string(r.FromBase64)
	}
	return nil
}
