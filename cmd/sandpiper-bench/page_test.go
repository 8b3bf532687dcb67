package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReplaceSection(t *testing.T) {
	t.Parallel()
	page := replaceSection("# Figures\n", "one", "first\n")
	page = replaceSection(page, "two", "\nsecond")
	page = replaceSection(page, "one", "anew")
	want := "# Figures\n\n<!-- begin: one -->\nanew\n<!-- end: one -->\n\n<!-- begin: two -->\nsecond\n<!-- end: two -->\n"
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
}
