package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandpiper-bot/sandpiper/app/config"
)

func TestCheckSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	typo, junk := filepath.Join(dir, "policy.yml"), filepath.Join(dir, "key.pem")
	for file, text := range map[string]string{typo: "agnet: claude\n", junk: "junk"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for setting, want := range map[string]string{
		"SANDPIPER_BACKEND=vm":                  `no backend "vm" (known: overlay,`,
		"SANDPIPER_BACKEND_OUTSIDER=vm":         `no backend "vm"`,
		"SANDPIPER_AGENT=cluade":                `did you mean "claude"?`,
		"SANDPIPER_AGENT=/nowhere/agent":        "/nowhere/agent: no such file",
		"SANDPIPER_AGENT=/bin/sh agent.sh":      "",
		"SANDPIPER_AGENT=claude":                "",
		"SANDPIPER_POLICY_FILE=/nowhere":        "/nowhere: no such file",
		"SANDPIPER_POLICY_FILE=" + typo:         `unknown key "agnet"`,
		"SANDPIPER_SIGNING_KEY_FILE=/nowhere":   "/nowhere: no such file",
		"SANDPIPER_SIGNING_KEY_FILE=" + junk:    "openssl genpkey",
		"SANDPIPER_EGRESS_NETWORKS=10.1.0.0/16": "",
	} {
		c, err := config.Load([]string{"HOME=" + dir, setting})
		if err != nil {
			t.Fatal(err)
		}
		err = CheckSettings(c)
		name, _, _ := strings.Cut(setting, "=")
		if want == "" && err == nil {
			continue
		}
		if wrong := (*config.Error)(nil); !errors.As(err, &wrong) || len(wrong.Problems) != 1 || wrong.Problems[0].Name != name || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", setting, err, want)
		}
	}
}
