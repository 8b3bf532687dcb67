package gates

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// touched are the paths that a change is about: also the one that a rename takes away.
func touched(c sandbox.Change) []string {
	if c.From != "" && c.From != c.Path {
		return []string{c.Path, c.From}
	}
	return []string{c.Path}
}

// workflows are what GitHub does not take from an App without that permission (peter-evans/create-pull-request#1713).
func workflows(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		if !in.Workflows && c.Kind != sandbox.Deleted && strings.HasPrefix(c.Path, ".github/workflows/") {
			found = append(found, Evidence{Path: c.Path, Text: "a workflow file, and the App does not have the permission \"workflows: write\""})
		}
	}
	return found
}

func protected(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		for _, p := range touched(c) {
			if glob, ok := in.Protected(p); ok {
				found = append(found, Evidence{Path: c.Path, Text: "protected by the policy (" + glob + ")"})
				break
			}
		}
	}
	return found
}

// steering are names of files that decide what is downloaded and run when people build a repository.
var steering = []string{
	"go.mod", "go.sum", "go.work", "go.work.sum",
	"package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock", "bun.lockb", "deno.json", "deno.lock", ".npmrc", ".yarnrc", ".yarnrc.yml",
	"Cargo.toml", "Cargo.lock", "build.rs", "rust-toolchain", "rust-toolchain.toml",
	"pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "constraints.txt", "Pipfile", "Pipfile.lock", "poetry.lock", "uv.lock", "pdm.lock", "pylock.toml", "pip.conf", "environment.yml",
	"Gemfile", "Gemfile.lock", "composer.json", "composer.lock", "mix.exs", "mix.lock", "pubspec.yaml", "pubspec.lock",
	"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.lockfile", "gradle-wrapper.properties", "gradle-wrapper.jar", "libs.versions.toml",
	"packages.config", "packages.lock.json", "Directory.Packages.props", "NuGet.config", "nuget.config",
	"Package.swift", "Package.resolved", "Podfile", "Podfile.lock", "MODULE.bazel", "WORKSPACE", "flake.nix", "flake.lock", ".gitmodules", ".tool-versions", "mise.toml",
	"Dockerfile", "Containerfile",
}

func dependencies(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		for _, p := range touched(c) {
			base := path.Base(p)
			if slices.Contains(steering, base) || strings.HasPrefix(base, "requirements") && strings.HasSuffix(base, ".txt") {
				found = append(found, Evidence{Path: c.Path, Text: "decides what is downloaded and run"})
				break
			}
		}
	}
	return found
}

func submodules(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		if c.NewMode == "160000" {
			found = append(found, Evidence{Path: c.Path, Text: "a submodule, now at " + c.NewID + ": what is in there was not looked at"})
		}
	}
	return found
}

// symlinks finds links that leave the repository, or reach into its git directory.
func symlinks(in Input) (found []Evidence) {
	for _, c := range in.Changes {
		if c.NewMode != "120000" {
			continue
		}
		target, ok := in.Content[c.NewID]
		to := string(target)
		inside := path.Join("/", path.Dir(c.Path))[1:]
		switch {
		case !ok:
			found = append(found, Evidence{Path: c.Path, Text: "a symbolic link whose target is too long to be read"})
		case path.IsAbs(to), escapes(inside, to):
			found = append(found, Evidence{Path: c.Path, Text: "a symbolic link out of the repository, to " + to})
		case slices.ContainsFunc(strings.Split(to, "/"), func(part string) bool { return strings.EqualFold(part, ".git") }):
			found = append(found, Evidence{Path: c.Path, Text: "a symbolic link into the git directory, to " + to})
		}
	}
	return found
}

// escapes says whether a relative path, followed from a directory, passes above the root on its way.
func escapes(dir, to string) bool {
	depth := 0
	if dir != "" {
		depth = strings.Count(dir, "/") + 1
	}
	for part := range strings.SplitSeq(to, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

const lfsPointer = "version https://git-lfs.github.com/spec/v1\n"

// lfs finds files of Git LFS that would come without their object. A pointer that only moved has its object at GitHub already.
func lfs(in Input) (found []Evidence) {
	known := map[string]bool{}
	for _, c := range in.Changes {
		known[c.OldID] = true
	}
	for _, c := range in.Changes {
		if c.Kind == sandbox.Deleted || c.NewMode == "160000" || c.NewMode == "120000" || in.LFS[c.Path] {
			continue
		}
		was := bytes.HasPrefix(in.Content[c.OldID], []byte(lfsPointer)) && c.OldID != ""
		is := bytes.HasPrefix(in.Content[c.NewID], []byte(lfsPointer))
		switch {
		case is && !known[c.NewID]:
			found = append(found, Evidence{Path: c.Path, Text: "a pointer of Git LFS whose object is not at GitHub: write the content in its place, and the bot uploads it"})
		case !is && c.Size > 0 && (was || Tracked(in.Read, c.Path)):
			found = append(found, Evidence{Path: c.Path, Text: "a file of Git LFS, but this is the content itself: no attribute asks for a pointer any more, or it is too large to be uploaded"})
		}
	}
	return found
}

// Tracked says whether .gitattributes give a path to Git LFS. The one nearest to the file, and in it the last line that
// matches, decides.
func Tracked(read func(path string) ([]byte, bool), name string) bool {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if text, ok := read(path.Join(dir, ".gitattributes")); ok {
			rel := strings.TrimPrefix(name, strings.TrimPrefix(dir+"/", "./"))
			if yes, decided := attribute(string(text), rel); decided {
				return yes
			}
		}
		if dir == "." {
			return false
		}
	}
}

func attribute(text, rel string) (lfs, decided bool) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 || strings.HasPrefix(f[0], "#") {
			continue
		}
		glob, anchored := strings.CutPrefix(f[0], "/")
		if !anchored && !strings.Contains(glob, "/") {
			glob = "**/" + glob
		}
		if !sandbox.MatchGlob(glob, rel) {
			continue
		}
		for _, attr := range f[1:] {
			if attr == "-filter" || attr == "!filter" || strings.HasPrefix(attr, "filter=") {
				lfs, decided = attr == "filter=lfs", true
			}
		}
	}
	return lfs, decided
}
