package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func secrets(values ...string) []redact.Secret {
	var list []redact.Secret
	for _, v := range values {
		list = append(list, redact.NewSecret(v))
	}
	return list
}

// The example of https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries#testing-the-webhook-payload-validation
func TestVerifyAgreesWithGitHubsExample(t *testing.T) {
	t.Parallel()
	v, err := newVerifier(secrets("It's a Secret to Everybody"))
	if err != nil {
		t.Fatal(err)
	}
	const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	if _, ok := v.verify(signature, []byte("Hello, World!")); !ok {
		t.Error("GitHub's own example is refused")
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	body := []byte(`{"a":1}`)
	v, err := newVerifier(secrets("new", "old"))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		signature string
		index     int
		ok        bool
	}{
		"first":         {sign("new", body), 0, true},
		"second":        {sign("old", body), 1, true},
		"upper case":    {"sha256=" + strings.ToUpper(sign("old", body)[7:]), 1, true},
		"unknown":       {sign("older", body), 0, false},
		"empty secret":  {sign("", body), 0, false},
		"other body":    {sign("new", []byte(`{"a":2}`)), 0, false},
		"none":          {"", 0, false},
		"no scheme":     {sign("new", body)[7:], 0, false},
		"SHA-1":         {"sha1=" + sign("new", body)[7:47], 0, false},
		"short":         {sign("new", body)[:40], 0, false},
		"empty digest":  {"sha256=", 0, false},
		"not hex":       {"sha256=" + strings.Repeat("zz", 32), 0, false},
		"digest and us": {sign("new", body) + "00", 0, false},
	} {
		if index, ok := v.verify(tc.signature, body); index != tc.index || ok != tc.ok {
			t.Errorf("%s: got %d %v, want %d %v", name, index, ok, tc.index, tc.ok)
		}
	}
}

func TestNoEmptySecret(t *testing.T) {
	t.Parallel()
	for name, list := range map[string][]redact.Secret{
		"none": nil, "empty": secrets(""), "blank": secrets(" \n"), "one of two": secrets("good", ""),
	} {
		if _, err := newVerifier(list); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
