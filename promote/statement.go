package promote

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"regexp"
)

// What a manifest is to other tools: the predicate of an in-toto statement about a commit and its tree, in a DSSE envelope
// (https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md, https://github.com/secure-systems-lab/dsse).
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://github.com/sandpiper-bot/sandpiper/promotion/v1"
	payloadType   = "application/vnd.in-toto+json"
)

// Statement is the manifest as an in-toto statement, canonical as the manifest itself.
func (m Manifest) Statement() []byte {
	var b bytes.Buffer
	writeCanonical(&b, object{
		"_type": StatementType, "predicateType": PredicateType, "predicate": m.predicate(),
		"subject": []any{
			object{"name": "commit", "digest": object{"gitCommit": m.Head}},
			object{"name": "tree", "digest": object{"gitTree": m.Tree}},
		},
	})
	return b.Bytes()
}

// Envelope holds a statement, and signatures over it if there are keys.
type Envelope struct {
	Payload     string      `json:"payload"` // base64
	PayloadType string      `json:"payloadType"`
	Signatures  []Signature `json:"signatures"`
}

// Signature is one of an envelope.
type Signature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"` // base64
}

// Signer signs envelopes. A nil Signer makes envelopes without a signature.
type Signer struct {
	key ed25519.PrivateKey
	id  string
}

// ReadSigner reads an Ed25519 key in PEM and PKCS #8, as openssl genpkey -algorithm ed25519 writes it.
func ReadSigner(text []byte) (*Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, errors.New("no private key in PEM and PKCS #8")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the private key cannot be read")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the private key is %T, must be Ed25519", parsed)
	}
	id, err := keyID(key.Public().(ed25519.PublicKey))
	return &Signer{key, id}, err
}

// LoadSigner reads the key in a file. Without a file there is no signer.
func LoadSigner(file string) (*Signer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	s, err := ReadSigner(text)
	if err != nil {
		return nil, fmt.Errorf("signing key %s: %w", file, err)
	}
	return s, nil
}

// ReadPublicKey reads an Ed25519 public key in PEM, as openssl pkey -pubout writes it.
func ReadPublicKey(text []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, errors.New("no public key in PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the public key is %T, must be Ed25519", parsed)
	}
	return key, nil
}

func keyID(key ed25519.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Seal puts the manifest into an envelope, as JSON on one line.
func (s *Signer) Seal(m Manifest) []byte {
	payload := m.Statement()
	e := Envelope{Payload: base64.StdEncoding.EncodeToString(payload), PayloadType: payloadType, Signatures: []Signature{}}
	if s != nil {
		sig := ed25519.Sign(s.key, preAuthentication(payload))
		e.Signatures = append(e.Signatures, Signature{KeyID: s.id, Sig: base64.StdEncoding.EncodeToString(sig)})
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("envelope as JSON: %v", err)) // of texts only
	}
	return text
}

// preAuthentication is what DSSE signs: type and payload, each with its length.
func preAuthentication(payload []byte) []byte {
	return fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
}

var inBody = regexp.MustCompile("(?m)^```json\r?\n(\\{\"payload\":\"[A-Za-z0-9+/=]+\",\"payloadType\":\"application/vnd\\.in-toto\\+json\"[^`\r\n]*\\})\r?\n```")

// FindEnvelope gives the envelope in the body of a pull request: the last one, because what people wrote is quoted above it.
func FindEnvelope(body string) ([]byte, bool) {
	all := inBody.FindAllStringSubmatch(body, -1)
	if len(all) == 0 {
		return nil, false
	}
	return []byte(all[len(all)-1][1]), true
}
