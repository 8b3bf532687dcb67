package main

import "testing"

// TestFullDiskIsSaid has an agent fill the disk of the machine. What it left cannot be recorded there and stays; the issue is told all the
// same how the mission ended.
func TestFullDiskIsSaid(t *testing.T) {
	t.Parallel()
	dir, small := smallDisk(t)
	if !small {
		t.Skip("a small disk can be made by root only")
	}
	fills := "if grep -q full /sandpiper/task.md; then i=0; while [ $i -lt 400 ]; do head -c 1000000 /dev/urandom >big$i || exit 1; i=$((i+1)); done; fi\n"
	w := newWorld(t, calc(fills+fixes))
	w.env = []string{"SANDPIPER_STATE_DIR=" + dir}
	w.start()
	n := w.openIssue("The disk is full", "")
	w.label("octavia", n)
	w.ended(n, "infrastructure")
	w.until("the mission is over", func() bool { return w.only().Step == "ended" })
	if !w.said(n, "the disk of the machine that the bot runs on is full") || len(w.pulls()) != 0 || len(w.comments(n)) != 1 {
		t.Errorf("%d pull requests, said %q", len(w.pulls()), w.comments(n))
	}
}
