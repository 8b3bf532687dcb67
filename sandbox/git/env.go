package git

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// nowhere stands for every file of configuration that git must not find. It can be neither read nor made, not even by
// root: /dev/null itself would be replaced by a regular file if somebody ran git config --global, as git renames over it.
// A missing HOME would not do: libcurl then takes the .netrc of the user's entry in the password database.
const nowhere = "/dev/null/none"

// settings hold for every call. Which of them matter where: git-config(1).
var settings = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.untrackedCache=false",
	"core.attributesFile=/dev/null",
	"core.excludesFile=/dev/null",
	"core.askPass=",
	"core.editor=false",
	"core.pager=cat",
	"core.sshCommand=false",
	"core.quotePath=true",
	"core.autocrlf=false",
	"core.protectHFS=true",
	"core.protectNTFS=true",
	// Eight runs that make and drop refs at once wait for each other; the default is 0.1 s and 1 s.
	"core.filesRefLockTimeout=2000",
	"core.packedRefsTimeout=3000",
	"credential.helper=",
	"credential.interactive=false",
	"diff.external=",
	"diff.ignoreSubmodules=all",
	"diff.suppressBlankEmpty=false",
	"commit.gpgSign=false",
	"push.gpgSign=false",
	"push.recurseSubmodules=no",
	"fetch.recurseSubmodules=no",
	"fetch.writeCommitGraph=false",
	"submodule.recurse=false",
	"gc.auto=0",
	"gc.autoDetach=false",
	"maintenance.auto=false",
	"protocol.allow=never",
	// A redirect away from the address that credentials were asked for is followed for the first request only.
	"http.followRedirects=initial",
	"http.lowSpeedLimit=1000",
	"http.lowSpeedTime=60",
}

func globalOptions(c Call) []string {
	opts := make([]string, 0, 2*(len(settings)+len(c.Config)+4))
	add := func(s string) { opts = append(opts, "-c", s) }
	for _, s := range settings {
		add(s)
	}
	for _, t := range c.Transport.protocols() {
		add("protocol." + t + ".allow=always")
	}
	if c.Credentials != nil {
		add("credential.helper=" + credentialHelper(3+len(c.Hold)))
	}
	for _, s := range c.Config {
		add(s)
	}
	return opts
}

func (t Transport) protocols() []string {
	switch t {
	case HTTP:
		return []string{"http", "https"}
	case Local:
		return []string{"file"}
	}
	return nil
}

func (g *Git) environment(c Call) []string {
	env := []string{
		"PATH=" + filepath.Dir(g.path) + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + nowhere,
		"XDG_CONFIG_HOME=" + nowhere,
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_SYSTEM=" + nowhere,
		"GIT_CONFIG_GLOBAL=" + nowhere,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		// Unlike the protocol.* settings this reaches the git on the other end of a local fetch too.
		"GIT_ALLOW_PROTOCOL=" + strings.Join(c.Transport.protocols(), ":"),
	}
	if c.GitDir != "" {
		env = append(env, "GIT_DIR="+c.GitDir)
	}
	if c.WorkTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.WorkTree)
	}
	if c.Index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.Index)
	}
	if c.Transport == HTTP {
		env = append(env, g.network...)
	}
	return append(env, c.Env...)
}

// networkSettings picks what an operator sets for all programs of the machine: the proxy and the certificates to trust.
func networkSettings(environ []string) []string {
	names := []string{"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"}
	var out []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		for _, n := range names {
			if n == name && value != "" {
				out = append(out, kv)
			}
		}
	}
	return out
}

// credentialHelper reads two lines from a descriptor that git inherits. The shell reads a pipe byte by byte, so that each
// request of git takes one pair and leaves the others.
func credentialHelper(fd int) string {
	return fmt.Sprintf(`!f() { test "$1" = get || exit 0; IFS= read -r u <&%d && IFS= read -r p <&%d && printf '%%s\n%%s\n' "$u" "$p"; }; f`, fd, fd)
}

// giveCredentials fills the pipe that credentialHelper reads and returns the password, to keep it out of errors.
func (g *Git) giveCredentials(ctx context.Context, c Call, cmd *exec.Cmd) (string, error) {
	if c.Credentials == nil {
		return "", nil
	}
	user, password, err := c.Credentials(ctx)
	if err != nil {
		return "", fmt.Errorf("credentials for git %s: %w", verb(c.Args), err)
	}
	secret := password.Reveal()
	if strings.ContainsAny(user+secret, "\n\x00") {
		return "", fmt.Errorf("credentials for git %s: a line break in them", verb(c.Args))
	}
	r, w, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("pipe for credentials: %w", err)
	}
	defer w.Close()
	// Git asks once for each process that it starts, and starts a second one for some fetches. All pairs together
	// must fit the pipe (64 KiB on Linux), as nobody reads while this is written; installation tokens have 520 bytes.
	pair := "username=" + user + "\npassword=" + secret + "\n"
	if _, err := w.WriteString(strings.Repeat(pair, min(8, max(1, 32<<10/len(pair))))); err != nil {
		r.Close()
		return "", fmt.Errorf("pipe for credentials: %w", err)
	}
	cmd.ExtraFiles = append(cmd.ExtraFiles, r)
	return secret, nil
}
