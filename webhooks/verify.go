package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// verifier checks signatures against every secret that is valid at the moment.
//
// Several secrets make a rotation without loss possible: add the new one here, change it at GitHub, remove the old one
// (with one secret only, events between the two changes are lost: octokit/webhooks.js#770, getsentry/eng-pipes#551).
// It is our own because go-github's ValidatePayload takes an empty secret as "do not verify", falls back to SHA-1,
// accepts form encoding and reads bodies without a limit (github/messages.go of v60).
type verifier struct {
	secrets []redact.Secret
}

func newVerifier(secrets []redact.Secret) (verifier, error) {
	if len(secrets) == 0 {
		return verifier{}, errors.New("webhook secret: none given; without one anybody could send deliveries")
	}
	for i, s := range secrets {
		// A secret of blanks is an empty one that a shell or a YAML file has quoted.
		if strings.TrimSpace(s.Reveal()) == "" {
			return verifier{}, fmt.Errorf("webhook secret %d: empty", i)
		}
	}
	return verifier{secrets: append([]redact.Secret(nil), secrets...)}, nil
}

// verify returns the index of the secret that body was signed with. The signature is the value of X-Hub-Signature-256:
// "sha256=" and 64 hexadecimal digits. The MAC is over the raw bytes; neither the event nor the delivery id is signed.
func (v verifier) verify(signature string, body []byte) (index int, ok bool) {
	digits, found := strings.CutPrefix(signature, "sha256=")
	if !found {
		return 0, false
	}
	got, err := hex.DecodeString(digits)
	if err != nil || len(got) != sha256.Size {
		return 0, false
	}
	for i, s := range v.secrets {
		mac := hmac.New(sha256.New, []byte(s.Reveal()))
		mac.Write(body)
		if hmac.Equal(mac.Sum(nil), got) {
			return i, true
		}
	}
	return 0, false
}
