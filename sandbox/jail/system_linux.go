package jail

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// roots of the system: a link stays a link, a directory is bound.
var roots = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// etc is what toolchains read below /etc. Nothing of it holds a secret: settings of package managers and of git, which
// may, are not here.
var etc = []string{
	"alternatives", "ca-certificates", "debian_version", "fonts", "java-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
	"localtime", "magic", "maven/logging", "maven/m2.conf", "mime.types", "os-release", "perl", "pki/ca-trust/extracted", "pki/java", "pki/tls/certs",
	"protocols", "python3*", "services", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone",
}

// written are files of /etc that are made for the sandbox, so that nothing of the host's users and network is told.
func written(uid int, hostname string) map[string]string {
	return map[string]string{
		"/etc/passwd": fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:%d:%d:agent:%s:/bin/sh\n"+
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", uid, gidOf(uid), HomeDir),
		"/etc/group":         fmt.Sprintf("root:x:0:\nagent:x:%d:\nnogroup:x:65534:\n", gidOf(uid)),
		"/etc/hosts":         "127.0.0.1 localhost " + hostname + "\n::1 localhost\n",
		"/etc/hostname":      hostname + "\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"/etc/resolv.conf":   "# no name server: there is no network\n",
	}
}

// systemArgs shows the host's programs, read-only.
func systemArgs() ([]string, error) {
	var args []string
	for _, root := range roots {
		if target, err := os.Readlink(root); err == nil {
			args = append(args, "--symlink", target, root)
		} else if _, err := os.Stat(root); err == nil {
			args = append(args, "--ro-bind", root, root)
		}
	}
	for _, pattern := range etc {
		found, err := filepath.Glob("/etc/" + pattern)
		if err != nil {
			return nil, fmt.Errorf("system path %s: %w", pattern, err)
		}
		for _, path := range found {
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	return args, nil
}

// never are names of files and directories that hold credentials, wherever they lie.
var never = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".gitconfig",
	".password-store", ".mozilla", ".m2", ".gem", ".vault-token", "credentials", "shadow", "gshadow", "sudoers", "private", "gcloud",
}

// CheckSystemPath says why a host path must not be made visible, or nil. A path that holds credentials, or has one that does
// below it (the root, a whole home, all of /etc), is refused, however it is spelled or linked.
func CheckSystemPath(path string) error {
	_, err := realSystemPath(path)
	return err
}

// realSystemPath also gives the path without links.
func realSystemPath(path string) (string, error) {
	refuse := func(why string) (string, error) { return "", fmt.Errorf("system path %s: refused: %s", path, why) }
	if !filepath.IsAbs(path) {
		return refuse("it is not absolute")
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("system path %s: %w", path, err)
	}
	for _, p := range []string{filepath.Clean(path), real} {
		parts := strings.Split(strings.Trim(p, "/"), "/")
		for _, part := range parts {
			if slices.Contains(never, part) {
				return refuse("credentials lie in " + part)
			}
		}
		switch parts[0] {
		case "proc", "sys", "dev", "run", "boot", "root", "":
			return refuse("it is part of the running host")
		case "home", "etc", "var":
			if len(parts) < 3 && !(parts[0] == "etc" && len(parts) == 2 && isFile(p)) {
				return refuse("too much lies below it; name what is needed")
			}
		}
	}
	if info, err := os.Stat(real); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return refuse("it is neither a file nor a directory")
	}
	return real, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// hidden are files of /proc that tell of the host or have been ways to it. Most need a capability to be read; it costs
// nothing not to rely on that. The first process is bubblewrap's own: its memory, descriptors and environment go too.
var hidden = []string{
	"/proc/acpi", "/proc/asound", "/proc/config.gz", "/proc/interrupts", "/proc/iomem", "/proc/ioports", "/proc/kallsyms", "/proc/kcore",
	"/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/latency_stats", "/proc/modules", "/proc/sched_debug", "/proc/scsi",
	"/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo",
}
