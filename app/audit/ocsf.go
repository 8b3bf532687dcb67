package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// Detection is a finding as a Detection Finding of the Open Cybersecurity Schema Framework, which collectors of security events
// read: https://schema.ocsf.io/1.3.0/classes/detection_finding
type Detection struct {
	ClassUID    int            `json:"class_uid"`    // 2004
	CategoryUID int            `json:"category_uid"` // 2: findings
	ActivityID  int            `json:"activity_id"`  // 1: create
	TypeUID     int            `json:"type_uid"`
	Time        int64          `json:"time"` // milliseconds
	SeverityID  int            `json:"severity_id"`
	Severity    string         `json:"severity"`
	StatusID    int            `json:"status_id"`      // 1: new
	Action      int            `json:"action_id"`      // 1: allowed, 2: denied, 0: unknown
	Disposition int            `json:"disposition_id"` // 1: allowed, 2: blocked, 0: unknown
	Message     string         `json:"message"`
	Metadata    ocsfMetadata   `json:"metadata"`
	Info        ocsfInfo       `json:"finding_info"`
	Evidences   []ocsfEvidence `json:"evidences"`
	Unmapped    ocsfUnmapped   `json:"unmapped"`
}

type ocsfMetadata struct {
	Version  string      `json:"version"`
	Product  ocsfProduct `json:"product"`
	Profiles []string    `json:"profiles"`
}

type ocsfProduct struct {
	Name   string `json:"name"`
	Vendor string `json:"vendor_name"`
}

type ocsfInfo struct {
	UID     string   `json:"uid"`
	Title   string   `json:"title"`
	Types   []string `json:"types"`
	Created int64    `json:"created_time"`
}

// ocsfEvidence says what it was about, in the words by which events of networks, interfaces and files are found too.
type ocsfEvidence struct {
	Data map[string]string `json:"data"`
	To   *ocsfEndpoint     `json:"dst_endpoint,omitempty"`
	API  *ocsfAPI          `json:"api,omitempty"`
	File *ocsfFile         `json:"file,omitempty"`
}

type ocsfEndpoint struct {
	Hostname string `json:"hostname"`
}

type ocsfAPI struct {
	Operation string `json:"operation"`
}

type ocsfFile struct {
	Name string `json:"name"`
	Path string `json:"path"`
	Type int    `json:"type_id"` // 0: unknown
}

type ocsfUnmapped struct {
	Run      string `json:"run"`
	Observer string `json:"observer"`
	Outcome  string `json:"outcome"`
}

var ocsfSeverities = map[string]int{"info": 1, "low": 2, "medium": 3, "high": 4, "critical": 5}

var ocsfDispositions = map[string]int{"breach": 1, "contained": 2}

// OCSF gives a finding in that form. Its id is made of what it says, so that the same finding has the same id when it is exported
// again.
func OCSF(f sandbox.Finding) Detection {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s\x00%s", f.Run, f.Time.UnixMilli(), f.Kind, f.Evidence))
	severity := f.Severity
	if ocsfSeverities[severity] == 0 {
		severity = "info"
	}
	return Detection{
		ClassUID: 2004, CategoryUID: 2, ActivityID: 1, TypeUID: 200401, Time: f.Time.UnixMilli(),
		SeverityID: ocsfSeverities[severity], Severity: severity, StatusID: 1, Action: ocsfDispositions[f.Outcome], Disposition: ocsfDispositions[f.Outcome],
		Message:   fmt.Sprintf("%s: %s, seen by the %s", f.Kind, f.Outcome, f.Observer),
		Metadata:  ocsfMetadata{Version: "1.3.0", Product: ocsfProduct{"Sandpiper", "Sandpiper"}, Profiles: []string{"security_control"}},
		Info:      ocsfInfo{UID: hex.EncodeToString(sum[:16]), Title: f.Kind, Types: []string{f.Kind}, Created: f.Time.UnixMilli()},
		Evidences: []ocsfEvidence{evidenceOf(f)},
		Unmapped:  ocsfUnmapped{string(f.Run), f.Observer, f.Outcome},
	}
}

// evidenceOf takes the object of a finding out of its text. All findings stay of one class: those of activities are for what
// happened, and this is what was made of it.
func evidenceOf(f sandbox.Finding) ocsfEvidence {
	e := ocsfEvidence{Data: map[string]string{"evidence": f.Evidence}}
	before, after, found := strings.Cut(f.Evidence, ": ")
	switch f.Kind {
	case "net.denied":
		if found && !strings.Contains(before, " ") { // else it speaks of several, or of none
			e.To = &ocsfEndpoint{before}
		}
	case "broker.refused":
		if action, _, _ := strings.Cut(after, " ("); action != "" {
			e.API = &ocsfAPI{action}
		}
	case "collect.name", "collect.special", "fs.setuid", "fs.symlink_out", "git.nested", "git.submodule":
		name, _, _ := strings.Cut(f.Evidence, " -> ")
		if at := strings.LastIndex(name, " ("); at > 0 {
			name = name[:at]
		}
		e.File = &ocsfFile{Name: path.Base(name), Path: name}
	}
	return e
}
