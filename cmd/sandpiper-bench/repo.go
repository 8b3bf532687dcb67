package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
)

// generate makes a bare repository with a number of files of 2 kB on average, in directories of twenty, and after its first commit
// as many further ones as asked, each of which changes ten files. The same arguments give the same ids, oldest first.
func generate(ctx context.Context, dir string, files, further int) (commits []string, err error) {
	if err := git(ctx, "", "init", "-q", "--bare", dir); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "git", "fast-import", "--quiet")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(in, 1<<20)
	stream(w, files, further)
	err = w.Flush()
	if cerr := in.Close(); err == nil {
		err = cerr
	}
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	if err != nil {
		return nil, fmt.Errorf("make the repository: %w", err)
	}
	out, err := gitOut(ctx, dir, "rev-list", "--reverse", "main")
	return strings.Fields(out), err
}

func stream(w io.Writer, files, further int) {
	rnd := rand.New(rand.NewPCG(1, uint64(files)))
	commit := func(n int) {
		fmt.Fprintf(w, "commit refs/heads/main\ncommitter A <a@example.com> %d +0000\ndata 1\nx\n", 1700000000+n)
	}
	put := func(i int) {
		text := content(rnd)
		fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", fileName(i), len(text), text)
	}
	commit(0)
	for i := range files {
		put(i)
	}
	for n := range further {
		commit(n + 1)
		for k := range 10 {
			put((n*7919 + k*(files/10)) % files)
		}
	}
}

func fileName(i int) string {
	return fmt.Sprintf("area%02d/part%02d/dir%03d/file%d.txt", i%10, i/10%10, i/2000, i)
}

// content is text of 100 to 4,000 bytes.
func content(rnd *rand.Rand) string {
	var b strings.Builder
	for n := 100 + rnd.IntN(3900); b.Len() < n; {
		fmt.Fprintf(&b, "line %x of some text\n", rnd.Uint64())
	}
	return b.String()
}

func git(ctx context.Context, dir string, args ...string) error {
	_, err := gitOut(ctx, dir, args...)
	return err
}

func gitOut(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
