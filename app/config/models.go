package config

import (
	"os"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Models are the settings of the endpoints that the broker offers to agents. A name is that of an API and not of a vendor: whoever
// speaks it can be behind the address.
type Models struct {
	AnthropicURL     string        `env:"SANDPIPER_MODEL_ANTHROPIC_URL" envDefault:"https://api.anthropic.com" desc:"Where Anthropic's Messages API is, without /v1. For claude."`
	AnthropicKey     redact.Secret `env:"SANDPIPER_MODEL_ANTHROPIC_KEY" desc:"Key for it. It stays outside of sandboxes. Without a key the endpoint is not offered."`
	AnthropicKeyFile string        `env:"SANDPIPER_MODEL_ANTHROPIC_KEY_FILE" desc:"File with the key, instead of the key itself."`
	OpenAIURL        string        `env:"SANDPIPER_MODEL_OPENAI_URL" envDefault:"https://api.openai.com" desc:"Where OpenAI's Responses and Chat Completions APIs are, without /v1. For codex, opencode, copilot, pi."`
	OpenAIKey        redact.Secret `env:"SANDPIPER_MODEL_OPENAI_KEY" desc:"Key for it."`
	OpenAIKeyFile    string        `env:"SANDPIPER_MODEL_OPENAI_KEY_FILE" desc:"File with the key, instead of the key itself."`
	GeminiURL        string        `env:"SANDPIPER_MODEL_GEMINI_URL" envDefault:"https://generativelanguage.googleapis.com" desc:"Where the Gemini API is, without /v1beta. For gemini."`
	GeminiKey        redact.Secret `env:"SANDPIPER_MODEL_GEMINI_KEY" desc:"Key for it."`
	GeminiKeyFile    string        `env:"SANDPIPER_MODEL_GEMINI_KEY_FILE" desc:"File with the key, instead of the key itself."`
}

// Model is one endpoint.
type Model struct {
	Name string // anthropic, openai, gemini
	URL  string
	Key  redact.Secret // zero: there is none
}

// modelFields are the same as places in a Config.
type modelFields struct {
	name      string
	url, file *string
	key       *redact.Secret
}

func (c *Config) modelFields() []modelFields {
	return []modelFields{
		{"anthropic", &c.AnthropicURL, &c.AnthropicKeyFile, &c.AnthropicKey},
		{"openai", &c.OpenAIURL, &c.OpenAIKeyFile, &c.OpenAIKey},
		{"gemini", &c.GeminiURL, &c.GeminiKeyFile, &c.GeminiKey},
	}
}

// Endpoints are all of them, with or without a key.
func (c *Config) Endpoints() []Model {
	var all []Model
	for _, f := range c.modelFields() {
		all = append(all, Model{f.name, *f.url, *f.key})
	}
	return all
}

// HandOver is what a supervisor has to be told of these settings, as NAME=value. It holds secrets.
func (c *Config) HandOver() []string {
	var out []string
	for _, m := range c.Endpoints() {
		prefix := "SANDPIPER_MODEL_" + strings.ToUpper(m.Name)
		if !m.Key.IsZero() {
			out = append(out, prefix+"_URL="+m.URL, prefix+"_KEY="+m.Key.Reveal())
		}
	}
	return out
}

// readModels checks the addresses and reads the keys that are in files.
func (c *Config) readModels(found *problems) {
	for _, f := range c.modelFields() {
		setting := "SANDPIPER_MODEL_" + strings.ToUpper(f.name)
		*f.url = strings.TrimRight(*f.url, "/")
		checkURL(found, setting+"_URL", *f.url, true)
		if *f.file != "" && !f.key.IsZero() {
			found.add(setting+"_KEY_FILE", setting+"_KEY is set as well", "set one of the two")
			continue
		}
		if *f.file != "" {
			key, err := os.ReadFile(*f.file)
			if err != nil {
				found.add(setting+"_KEY_FILE", err.Error(), "give the path of a file with the key, readable by the bot's user")
				continue
			}
			*f.key = redact.NewSecret(strings.TrimSpace(string(key)))
			c.origin[setting+"_KEY"] = "file"
			if f.key.IsZero() {
				found.add(setting+"_KEY_FILE", "the file is empty", "write the key into it")
			}
		}
		if key := f.key.Reveal(); strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			found.add(setting+"_KEY", "it holds a space, a line break or another character that no key has", "check the key, or the content of its file")
		}
	}
}
