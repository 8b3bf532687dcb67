package redact_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Made up here; of the lengths and characters that real ones have.
const (
	long  = "v1.7c9e6679f4b1a2d3c4e5f60718293a4b5c6d7e8f"
	odd   = "pa55/word+with=odd&chars and more"
	short = "hunter2!"
)

func pemKey(label string) string {
	return "-----BEGIN " + label + "-----\n" + strings.Repeat(strings.Repeat("MIIEow", 10)+"\n", 20) + "-----END " + label + "-----"
}

func known() *redact.Redactor {
	r := redact.New()
	for _, v := range []string{long, odd, short} {
		r.Add(redact.NewSecret(v))
	}
	return r
}

func cases() map[string][2]string {
	basic := base64.StdEncoding.EncodeToString([]byte("x-access-token:" + long))
	jwt := "ghs_123_eyJhbGciOiJSUzI1NiJ9." + strings.Repeat("aB3-_x", 80) + ".sig_nature-0"
	return map[string][2]string{
		"nothing":               {"plain text, high_five, a base64 dGhpcyBpcyBub3RoaW5n\n", "plain text, high_five, a base64 dGhpcyBpcyBub3RoaW5n\n"},
		"whole":                 {"token=" + long + ";", "token=[secret];"},
		"twice":                 {long + long, "[secret][secret]"},
		"without its beginning": {"<" + long[7:] + ">", "<[secret]>"},
		"the middle":            {"<" + long[9:31] + ">", "<[secret]>"},
		"too little to matter":  {"<" + long[9:28] + ">", "<" + long[9:28] + ">"},
		"a short one":           {"pw " + short + " " + short[1:], "pw [secret] " + short[1:]},
		"query":                 {"?p=" + url.QueryEscape(odd) + "&x", "?p=[secret]&x"},
		"path":                  {"/" + url.PathEscape(odd) + "/x", "/[secret]/x"},
		"hex":                   {fmt.Sprintf("%x.", long), "[secret]."},
		"token":                 {"a ghp_0123456789abcdefABCDEF b", "a [secret] b"},
		"long token":            {"url https://x:" + jwt + "@host/", "url https://x:[secret]@host/"},
		"fine-grained":          {"github_pat_11AAAAAAA0abcdefghij_x!", "[secret]!"},
		"mention of a prefix":   {"starts with ghs_ or ghs_short or github_pat_.", "starts with ghs_ or ghs_short or github_pat_."},
		"key":                   {"k: " + pemKey("RSA PRIVATE KEY") + "\nafter", "k: [secret]\nafter"},
		"key in JSON":           {`{"k":"` + strings.ReplaceAll(pemKey("PRIVATE KEY"), "\n", `\n`) + `"}`, `{"k":"[secret]"}`},
		"key cut off":           {pemKey("EC PRIVATE KEY")[:300], "[secret]"},
		"certificate":           {pemKey("CERTIFICATE"), pemKey("CERTIFICATE")},
		"at the end":            {"x" + long, "x[secret]"},
		"not UTF-8":             {"\xff\xfe" + long + "\xff", "\xff\xfe[secret]\xff"},
		"empty":                 {"", ""},
		"basic":                 {"Authorization: Basic " + basic, "Authorization: Basic " + basic[:20] + "[secret]" + basic[len(basic)-3:]},
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for name, c := range cases() {
		if diff := cmp.Diff(c[1], known().String(c[0])); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// Base64 of a header shows no 20 characters of what encodes the secret, wherever the secret stands in it.
func TestBase64AnyPosition(t *testing.T) {
	t.Parallel()
	for before := range 7 {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			coded := enc.EncodeToString([]byte(strings.Repeat("u", before) + odd + "::tail"))
			got := known().String(coded)
			if !strings.Contains(got, redact.Mark) || len(got) > 40 {
				t.Errorf("%d bytes before: %s became %s", before, coded, got)
			}
		}
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	r := redact.New()
	first, second := r.Add(redact.NewSecret(long)), r.Add(redact.NewSecret(long))
	first()
	first() // does nothing: the other owner still needs it
	if got := r.String(long); got != redact.Mark {
		t.Errorf("after one of two owners has gone: %q", got)
	}
	second()
	if got := r.String(long); got != long {
		t.Errorf("after both have gone: %q", got)
	}
}

// However a text is cut into writes, the writer gives what String gives.
func TestWriterAnyCut(t *testing.T) {
	t.Parallel()
	r := known()
	for name, c := range cases() {
		for size := 1; size < 24; size++ {
			if diff := cmp.Diff(c[1], through(t, r, []byte(c[0]), func() int { return size })); diff != "" {
				t.Errorf("%s, in writes of %d: (-want +got)\n%s", name, size, diff)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	all := ""
	for _, c := range cases() {
		all += c[0] + []string{"", " ", "\n"}[random.IntN(3)]
	}
	for range 200 {
		if diff := cmp.Diff(r.String(all), through(t, r, []byte(all), func() int { return 1 + random.IntN(90) })); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	}
}

func through(t *testing.T, r *redact.Redactor, text []byte, size func() int) string {
	t.Helper()
	var out bytes.Buffer
	w := r.Writer(&out)
	for len(text) > 0 {
		n := min(size(), len(text))
		if _, err := w.Write(text[:n]); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A line of a log is written at once: a person is watching.
func TestWriterHoldsBackLittle(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := known().Writer(&out)
	for _, line := range []string{"compiling\n", "ghs_ab\n", "token ghs_0123456789abcdef\n", long + "\n"} {
		out.Reset()
		if _, err := io.WriteString(w, line); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(out.String(), "\n") {
			t.Errorf("of %q only %q was written", line, out.String())
		}
	}
}

// A secret that never ends neither stops the stream nor comes out in part.
func TestWriterEndlessToken(t *testing.T) {
	t.Parallel()
	text := []byte("a ghs_" + strings.Repeat("0123456789abcdef", 1<<14) + " b")
	got := through(t, known(), text, func() int { return 1 << 12 })
	if diff := cmp.Diff("a [secret] b", got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWriterError(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	_ = r.CloseWithError(io.ErrUnexpectedEOF)
	out := known().Writer(w)
	if _, err := io.WriteString(out, "x\n"); err != io.ErrUnexpectedEOF {
		t.Errorf("got %v", err)
	}
	if err := out.Close(); err != io.ErrUnexpectedEOF {
		t.Errorf("Close: got %v", err)
	}
}

func TestSecretDoesNotPrint(t *testing.T) {
	t.Parallel()
	type holder struct{ S redact.Secret }
	h := holder{redact.NewSecret(long)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+" ", h)
		fmt.Fprintf(&out, verb+" ", &h.S)
	}
	if err := json.NewEncoder(&out).Encode(map[string]any{"a": h, "b": map[redact.Secret]int{h.S: 1}}); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", h.S, "holder", h)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "secret", h.S, "holder", h)
	if strings.Contains(out.String(), long[:8]) || strings.Contains(out.String(), fmt.Sprintf("%x", long[:8])) {
		t.Errorf("the value is in %s", out.String())
	}
	if !h.S.Equal(redact.NewSecret(long)) || h.S.IsZero() || h.S.Reveal() != long {
		t.Error("the value is not kept")
	}
}

func FuzzWriter(f *testing.F) {
	for _, c := range cases() {
		f.Add([]byte(c[0]), long, uint8(3))
	}
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), strings.Repeat("a", 25), uint8(1))
	f.Add([]byte("abcabcabcabcabcabcabcabcabcabc-----BEGIN PRIVATE KEY-----abc ghs_abcabcabcabc"), strings.Repeat("abc", 9), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, value string, size uint8) {
		r := known()
		r.Add(redact.NewSecret(value))
		whole := r.Bytes(text)
		if got := through(t, r, text, func() int { return int(size)%40 + 1 }); got != string(whole) {
			t.Errorf("the writer gave %q, Bytes %q", got, whole)
		}
		if len(value) >= 6 && !strings.Contains(redact.Mark, value) && bytes.Contains(whole, []byte(value)) {
			t.Errorf("%q is left in %q", value, whole)
		}
	})
}

func BenchmarkWriter(b *testing.B) {
	r := known()
	r.Add(redact.NewSecret(pemKey("RSA PRIVATE KEY")))
	text := []byte(strings.Repeat("ok  github.com/acme/calc/internal/some_package 0.412s coverage: 81.2% of statements\n", 400))
	b.SetBytes(int64(len(text)))
	w := r.Writer(io.Discard)
	for b.Loop() {
		_, _ = w.Write(text)
	}
}

// TestForgetOneOfMany has values come and go: whoever is there is found, whoever has gone is not, and nothing of them is kept.
func TestForgetOneOfMany(t *testing.T) {
	t.Parallel()
	r := redact.New()
	const many = 200
	forget := map[int]func(){}
	for round := range 3 {
		for i := range many {
			if i%3 == round || forget[i] == nil {
				forget[i] = r.Add(redact.NewSecret(value(i)))
			}
			if i%2 == 0 {
				forget[i]()
				forget[i] = nil
			}
		}
	}
	for i := range many {
		want := redact.Mark
		if i%2 == 0 {
			want = value(i)
		}
		if got := r.String(value(i)); got != want {
			t.Errorf("value %d: %q became %q, want %q", i, value(i), got, want)
		}
	}
}

// value is one of many secrets that look like nothing.
func value(i int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(i)))
	return hex.EncodeToString(sum[:])[:40]
}

// BenchmarkAdd adds one value to as many as an hour of a busy bot has, and takes it back.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{10, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := redact.New()
			for i := range n {
				r.Add(redact.NewSecret(value(i)))
			}
			for b.Loop() {
				r.Add(redact.NewSecret(long))()
			}
		})
	}
}

// TestEveryFragment has each part of 20 bytes of a secret found, wherever in a text it begins.
func TestEveryFragment(t *testing.T) {
	t.Parallel()
	secret := value(1) + value(2)
	r := redact.New()
	r.Add(redact.NewSecret(secret))
	for from := 0; from+20 <= len(secret); from++ {
		for before := range 13 {
			text := strings.Repeat("-", before) + secret[from:from+20] + "-"
			if got, want := r.String(text), strings.Repeat("-", before)+redact.Mark+"-"; got != want {
				t.Errorf("bytes from %d of the secret, %d in the text: %q", from, before, got)
			}
		}
	}
}
