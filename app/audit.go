package app

import (
	"context"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/audit"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/probe"
)

// recordSandbox puts what happened to a sandbox on record.
func (a *App) recordSandbox(e sandbox.Event) {
	_ = a.audit.Append(context.Background(), SandboxEntry(e))
}

// SandboxEntry is what happened to a sandbox as a record. The findings of it are part of the record.
func SandboxEntry(e sandbox.Event) audit.Entry {
	data := map[string]any{}
	if e.Detail != "" {
		data["detail"] = e.Detail
	}
	if len(e.Findings) > 0 {
		data["findings"] = e.Findings
	}
	return audit.Entry{Kind: "sandbox." + e.Kind, Run: string(e.Run), Time: e.Time, Data: data}
}

// AuditDir is where the copy of the audit chain lies.
func AuditDir(stateDir string) string { return filepath.Join(stateDir, "audit") }

// ProbeEntry is a verdict as a record: with the raw observations.
func ProbeEntry(r probe.Result) audit.Entry {
	return audit.Entry{Kind: "probe", Run: string(r.Run), Time: r.Started, Data: r}
}

// effects records every request that changes something at GitHub: what, and how it ended. Neither heads nor bodies, which
// hold tokens and texts.
type effects struct {
	next  http.RoundTripper
	audit *audit.Log
}

func (t effects) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return response, err
	}
	data := map[string]any{"method": r.Method, "path": r.URL.Path}
	if err != nil {
		data["error"] = err.Error()
	} else {
		data["status"] = response.StatusCode
		data["request_id"] = response.Header.Get("X-Github-Request-Id")
	}
	_ = t.audit.Append(r.Context(), audit.Entry{Kind: "github." + strings.ToLower(r.Method), Data: data})
	return response, err
}
