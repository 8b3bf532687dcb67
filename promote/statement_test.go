package promote

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/git"
)

// keys makes a pair for a test, in PEM.
func keys(t *testing.T) (private, public []byte) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	out, err := x509.MarshalPKIXPublicKey(pub)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: out})
}

func TestSignedManifest(t *testing.T) {
	t.Parallel()
	private, public := keys(t)
	signer, err := ReadSigner(private)
	must(t, err)
	key, err := ReadPublicKey(public)
	must(t, err)
	sealed := signer.Seal(request().with(made).manifest(made.Commit))
	o, err := Open(sealed)
	must(t, err)
	if !o.SignedBy(key) || len(o.KeyIDs()) != 1 || o.Head != made.Commit {
		t.Errorf("signed %v by %v, head %s", o.SignedBy(key), o.KeyIDs(), o.Head)
	}
	_, other := keys(t)
	stranger, err := ReadPublicKey(other)
	must(t, err)
	if o.SignedBy(stranger) {
		t.Error("signed by a key that has not signed")
	}
	var e Envelope
	must(t, json.Unmarshal(sealed, &e))
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	must(t, err)
	e.Payload = base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(payload), "octavia", "mallory", 1)))
	forged, err := json.Marshal(e)
	must(t, err)
	if o, err := Open(forged); err != nil || o.SignedBy(key) {
		t.Errorf("a changed payload is signed: %v", err)
	}
	for _, bad := range []string{"", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", string(public)} {
		if _, err := ReadSigner([]byte(bad)); err == nil || strings.Contains(err.Error(), "AAAA") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestVerify holds manifests, true and false ones, against the repository.
func TestVerify(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.offers(1, ordinary, ordinary.with(tree{"dir/a": {}, "b\xff": {"100755", "x\n"}, "tool": {"120000", "dir"}}))
	m := w.req.manifest(w.req.Staged.Commit)
	g, err := git.New(git.Options{})
	must(t, err)
	verify := func(m Manifest) string {
		t.Helper()
		o, err := Open((*Signer)(nil).Seal(m))
		must(t, err)
		differs, err := o.Verify(t.Context(), g, w.made.dir)
		if err != nil {
			return "error: " + err.Error()
		}
		return strings.Join(differs, "; ")
	}
	if diff := cmp.Diff("", verify(m)); diff != "" {
		t.Errorf("a true manifest (-want +got)\n%s", diff)
	}
	for name, tt := range map[string]struct {
		lie  func(m *Manifest)
		want string
	}{
		"a change that is hidden":  {func(m *Manifest) { m.Changes = m.Changes[1:] }, "not in the manifest"},
		"a change that is made up": {func(m *Manifest) { m.Changes = append(m.Changes, m.Changes[0]); m.Changes[0].Path = "x" }, "has not changed"},
		"another mode":             {func(m *Manifest) { m.Changes[0].NewMode = "100600" }, "the manifest says"},
		"another content":          {func(m *Manifest) { m.Changes[0].NewID = m.Head }, "the manifest says"},
		"another tree":             {func(m *Manifest) { m.Tree, _ = w.made.git("", nil, "rev-parse", m.Base+"^{tree}") }, "the head's tree"},
		"another base":             {func(m *Manifest) { m.Base, m.Head = m.Head, m.Base }, "does not stand on the base"},
		"commits that are not there": {func(m *Manifest) {
			m.Steps = make([]Step, 50)
			for i := range m.Steps {
				m.Steps[i].Tree = m.Tree
			}
		}, "lists 50 commits"},
		"a commit that is not here": {func(m *Manifest) { m.Head = strings.Repeat("1", 40) }, "fetch the pull request's branch"},
		"no commit":                 {func(m *Manifest) { m.Base = "--all" }, "no object id"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			lying := m
			lying.Changes = byPath(m.Changes)
			tt.lie(&lying)
			if got := verify(lying); !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "{}", `{"payloadType":"application/vnd.in-toto+json","payload":"e30="}`, `{"payloadType":"text/plain","payload":"e30="}`} {
		if _, err := Open([]byte(bad)); err == nil {
			t.Errorf("%q was opened", bad)
		}
	}
}

// TestFindEnvelopeTakesTheBotsOwn: what people wrote is quoted above it.
func TestFindEnvelopeTakesTheBotsOwn(t *testing.T) {
	t.Parallel()
	one := func(text string) string {
		return "```json\n{\"payload\":\"" + text + "\",\"payloadType\":\"application/vnd.in-toto+json\",\"signatures\":[]}\n```\n"
	}
	got, ok := FindEnvelope("````text\n" + one("Zm9yZ2Vk") + "````\n" + one("b3Vycw=="))
	if !ok || !strings.Contains(string(got), "b3Vycw==") {
		t.Errorf("found %s, %v", got, ok)
	}
}
