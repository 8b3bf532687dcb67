package gates

import (
	"math"
	"regexp"
	"strings"
	"sync"
)

// rule is one documented form of a credential. The pre-check on a part that every value has is what makes looking at a
// large change cheap.
type rule struct {
	name string
	has  string
	form func() *regexp.Regexp
}

func form(name, has, expr string) rule {
	return rule{name, has, sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })}
}

// rules are the forms that the vendors document for keys which can be told from other text by their looks. They are few and
// exact on purpose: a gate that cries without cause is allowed without a look.
var rules = []rule{
	// docs.github.com, "About authentication to GitHub", token formats; installation tokens grew to hundreds of characters in 2026.
	form("GitHub token", "gh", `\bgh[pousr]_[A-Za-z0-9_.-]{36,}`),
	form("GitHub fine-grained token", "github_pat_", `\bgithub_pat_[A-Za-z0-9_]{60,}`),
	form("GitLab token", "gl", `\bgl(?:pat|dt|rt|ptt|oas|cbt|ft|soat|agent|imt)-[A-Za-z0-9_-]{20,}`),
	// docs.aws.amazon.com, IAM identifiers: the prefix says what kind of key.
	form("AWS access key", "A", `\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`),
	form("Google API key", "AIza", `\bAIza[A-Za-z0-9_-]{35}\b`),
	form("Google OAuth secret", "GOCSPX-", `\bGOCSPX-[A-Za-z0-9_-]{28}`),
	form("Slack token", "xox", `\bxox[abeoprs]-[0-9]+-[A-Za-z0-9-]{10,}`),
	form("Slack app token", "xapp-", `\bxapp-[0-9]-[A-Z0-9]+-[0-9]+-[a-f0-9]{32,}`),
	form("Slack webhook", "hooks.slack.com", `hooks\.slack\.com/(?:services|workflows)/T[A-Z0-9]{6,}/[A-Za-z0-9]{6,}/[A-Za-z0-9]{20,}`),
	form("Stripe key", "_live_", `\b[rs]k_live_[A-Za-z0-9]{20,}`),
	form("OpenAI key", "sk-", `\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,}`),
	form("Anthropic key", "sk-ant-", `\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}`),
	form("Hugging Face token", "hf_", `\bhf_[A-Za-z]{34}\b`),
	form("npm token", "npm_", `\bnpm_[A-Za-z0-9]{36}\b`),
	form("PyPI token", "pypi-AgE", `\bpypi-AgE[A-Za-z0-9_-]{50,}`),
	form("RubyGems key", "rubygems_", `\brubygems_[a-f0-9]{48}\b`),
	form("crates.io token", "cio", `\bcio[A-Za-z0-9]{32}\b`),
	form("Docker token", "dckr_", `\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}`),
	form("DigitalOcean token", "do", `\bdo[opr]_v1_[a-f0-9]{64}\b`),
	form("SendGrid key", "SG.", `\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b`),
	form("Twilio key", "SK", `\bSK[0-9a-f]{32}\b`),
	form("Shopify token", "shp", `\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b`),
	form("Grafana token", "gl", `\bgl(?:c_[A-Za-z0-9+/]{32,}={0,2}|sa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8})`),
	form("HashiCorp Vault token", "hv", `\bhv[sbr]\.[A-Za-z0-9_-]{24,}`),
	form("Terraform Cloud token", ".atlasv1.", `\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}`),
	form("Databricks token", "dapi", `\bdapi[a-f0-9]{32}\b`),
	form("Linear key", "lin_api_", `\blin_api_[A-Za-z0-9]{40}\b`),
	form("Notion token", "ntn_", `\bntn_[0-9]{11}[A-Za-z0-9]{35}\b`),
	form("Doppler token", "dp.", `\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.-]{40,}`),
	form("age key", "AGE-SECRET-KEY-1", `\bAGE-SECRET-KEY-1[0-9A-Z]{58}\b`),
	form("Azure storage key", "AccountKey=", `AccountKey=[A-Za-z0-9+/]{86}==`),
	// RFC 7468, and the forms of OpenSSH and PGP.
	form("private key", "PRIVATE KEY", `-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----`),
	// RFC 7519: header and payload are JSON objects, so both begin with eyJ. Installation tokens are ghs_<number>_<JWT>: also without its
	// first characters one is found.
	form("signed token (JWT)", "eyJ", `(?:\b|_)eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`),
	form("password in an address", "://", `\b[a-z][a-z0-9+.-]*://[^\s:/@'"<>$\{]+:[^\s/@'"<>$\{]{6,}@[A-Za-z0-9.-]+\.[a-z]{2,}`),
}

// assigned is a value in quotes, or after an equals sign, that its name says to be secret.
var assigned = regexp.MustCompile(`(?i)(?:secret|token|passwd|password|api_?-?key|access_?-?key|private_?-?key|credential)s?["']?\s*(?:=|:|:=|=>)\s*["']?([A-Za-z0-9+/=_.~-]{20,200})`)

// placeholder says that a value is there to be replaced, or is a name.
var placeholder = regexp.MustCompile(`(?i)example|change.?me|placeholder|dummy|sample|redacted|your[_-]|xxxx|\*\*\*|test|fake|0{8}|1234567|abcdef|getenv|process\.env|environ|secrets?\.|vars?\.`)

// FindSecrets looks for credentials in a text by their documented forms, and for random values under telling names. It gives
// rules and lines, not values.
func FindSecrets(text string) []Secret {
	var found []Secret
	number := 0
	for line := range strings.Lines(text) {
		number++
		if name := secretIn(line); name != "" {
			found = append(found, Secret{Rule: name, Line: number})
		}
	}
	return found
}

// Mask replaces credentials of the documented forms in a text that is about to be posted. Random values under telling names
// stay: in what people read they are mostly digests.
func Mask(text string) string {
	for _, r := range rules {
		if strings.Contains(text, r.has) {
			text = r.form().ReplaceAllStringFunc(text, func(value string) string {
				if strings.Contains(strings.ToUpper(value), "EXAMPLE") {
					return value
				}
				return "[secret: " + r.name + "]"
			})
		}
	}
	return text
}

func secretIn(line string) string {
	for _, r := range rules {
		if !strings.Contains(line, r.has) {
			continue
		}
		// What all documentation has in common is the word: AKIA…EXAMPLE.
		if m := r.form().FindString(line); m != "" && !strings.Contains(strings.ToUpper(m), "EXAMPLE") {
			return r.name
		}
	}
	for _, m := range assigned.FindAllStringSubmatch(line, 3) {
		if v := m[1]; entropy(v) > 3.7 && mixed(v) && !placeholder.MatchString(v) {
			return "random value under a name that says secret"
		}
	}
	return ""
}

// entropy is Shannon's, in bits a character: English identifiers have about 3, random base64 of 40 characters about 4.8.
func entropy(s string) float64 {
	count := map[rune]float64{}
	for _, r := range s {
		count[r]++
	}
	sum := 0.0
	for _, n := range count {
		p := n / float64(len(s))
		sum -= p * math.Log2(p)
	}
	return sum
}

// mixed says that a value has digits among letters, as random ones have and names seldom do.
func mixed(s string) bool {
	digits := 0
	for _, r := range s {
		if r >= '0' && r <= '9' {
			digits++
		}
	}
	return digits >= 3 && digits < len(s) && strings.ContainsAny(strings.ToLower(s), "ghijklmnopqrstuvwxyz") || digits >= 8 && len(s) >= 32 && digits < len(s)
}
