package egress

// member is a host of a group and what it is for.
type member struct{ host, why string }

type group []member

func (g group) hosts() []string {
	out := make([]string, len(g))
	for i, m := range g {
		out[i] = m.host
	}
	return out
}

// groups are what a policy can name instead of hosts: what the tools of one ecosystem need to read public packages, host by host.
// Where a host also takes uploads, from whoever brings an account of their own into the sandbox, the line says so: through such a
// host text can leave. Hosts of that kind that can be done without are left out: storage.googleapis.com (large files of the Go
// proxy, sometimes), crates.io (older cargo), upload.pypi.org.
var groups = map[string]group{
	"go": { // https://go.dev/ref/mod#environment-variables
		{"proxy.golang.org:443", "modules and toolchains, GOPROXY's default"},
		{"sum.golang.org:443", "checksum database, GOSUMDB's default"},
	},
	"npm": { // https://docs.npmjs.com/cli/using-npm/registry
		{"registry.npmjs.org:443", "npm's registry, with the packages; takes uploads"},
		{"registry.yarnpkg.com:443", "yarn 1's name for the same; takes uploads"},
		{"nodejs.org:443", "headers for native modules (node-gyp)"},
	},
	"pypi": { // https://docs.pypi.org/api/
		{"pypi.org:443", "index"},
		{"files.pythonhosted.org:443", "packages"},
	},
	"crates": { // https://doc.rust-lang.org/cargo/reference/registries.html
		{"index.crates.io:443", "sparse index"},
		{"static.crates.io:443", "packages"},
		{"static.rust-lang.org:443", "toolchains of rustup"},
	},
	"maven": { // https://central.sonatype.org/consume/, https://docs.gradle.org/current/userguide/gradle_wrapper.html
		{"repo.maven.apache.org:443", "Maven Central, Maven's default"},
		{"repo1.maven.org:443", "the same, Gradle's default"},
		{"plugins.gradle.org:443", "Gradle's plugin portal; takes uploads"},
		{"plugins-artifacts.gradle.org:443", "where the portal redirects to"},
		{"services.gradle.org:443", "Gradle itself, by its wrapper"},
		{"downloads.gradle.org:443", "where the wrapper is redirected to"},
	},
	"rubygems": { // https://guides.rubygems.org/rubygems-org-api/
		{"rubygems.org:443", "gems; takes uploads"},
		{"index.rubygems.org:443", "index, bundler's default"},
	},
	"debian": { // https://www.debian.org/mirror/list; apt uses port 80, as packages are signed
		{"deb.debian.org", "packages"},
		{"security.debian.org", "security updates"},
	},
	"github": { // https://docs.github.com/en/rest/meta/meta; not api.github.com, which is the broker's
		{"github.com:443", "git by HTTPS, release pages; takes uploads"},
		{"codeload.github.com:443", "archives"},
		{"raw.githubusercontent.com:443", "single files"},
		{"objects.githubusercontent.com:443", "release files and LFS"},
		{"release-assets.githubusercontent.com:443", "release files"},
	},
}
