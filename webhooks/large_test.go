package webhooks

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestWhoSendsTooMuchReadsWhy sends all of a body before it reads, as simple clients do, with and without its length.
func TestWhoSendsTooMuchReadsWhy(t *testing.T) {
	t.Parallel()
	const size = MaxBody + 8<<20
	for name, tc := range map[string]struct{ head, before, after string }{
		"announced":   {fmt.Sprintf("Content-Length: %d", size), "", ""},
		"unannounced": {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n", size), "\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(newIntake(t).url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			head := "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-GitHub-Event: issues\r\nX-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958\r\n" + tc.head + "\r\n\r\n"
			body := io.MultiReader(strings.NewReader(head+tc.before), bytes.NewReader(make([]byte, size)), strings.NewReader(tc.after))
			if _, err := io.Copy(conn, body); err != nil {
				t.Fatalf("send: %v", err)
			}
			answer := make([]byte, 12)
			if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != fmt.Sprint("HTTP/1.1 ", http.StatusRequestEntityTooLarge) {
				t.Errorf("answer %q, %v", answer, err)
			}
		})
	}
}
