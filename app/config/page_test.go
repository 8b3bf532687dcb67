package config

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/settings.md")

const page = "../../docs/settings.md"

// The page is made from the fields of Config, so that it cannot say anything else than the program does.
func TestSettingsPage(t *testing.T) {
	want := `# Settings

Settings come from the environment. ` + "`sandpiper doctor`" + ` shows each with its value and where it comes from, and says what is wrong.
A durable place for them is the environment file of the service, readable by the bot's user alone.
Id, key and webhook secret of an App that ` + "`sandpiper setup`" + ` has made are taken from app.json in the state directory, where SANDPIPER_APP_ID is not set.

` + Table()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/settings.md is not what the settings are; run go test ./app/config -update\n%s", d)
	}
}
