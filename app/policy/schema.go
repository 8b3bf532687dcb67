package policy

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (draft 2020-12) of a policy file, for editors. What it cannot say, such as that names of checks
// are unique, Parse says.
func Schema() []byte { return bytes.Clone(schema) }
