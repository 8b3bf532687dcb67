package config

import (
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

// Config is every setting. The tags say the variable (env), its default (envDefault, or shown where it is computed), and
// what it is for (desc). The comments say why a default is what it is.
type Config struct {
	// The XDG base directory specification gives a user's programs $XDG_STATE_HOME for what must outlive a restart;
	// a service that runs as root keeps its state in /var/lib (Filesystem Hierarchy Standard 5.8).
	StateDir string `env:"SANDPIPER_STATE_DIR" shown:"$XDG_STATE_HOME/sandpiper; /var/lib/sandpiper for root" desc:"Directory of everything that the bot keeps: stores, runs, the database."`
	// The database is a file beside the rest of the state, so that one directory is the whole backup.
	DatabaseURL string `env:"DATABASE_URL" shown:"sandpiper.db in the state directory" desc:"The database: sqlite:PATH or postgres://…; several bots share the work on PostgreSQL."`

	// Loopback: nothing is open to a network before somebody says so. TLS is the reverse proxy's.
	Listen string `env:"SANDPIPER_LISTEN" envDefault:"127.0.0.1:7081" desc:"Address for webhooks, as host:port. Put a TLS proxy in front."`
	// Loopback again, and a port of its own: what stands there is for operators and must not be put before the world by accident.
	OpsListen     string        `env:"SANDPIPER_OPS_LISTEN" envDefault:"127.0.0.1:7082" desc:"Address for operators: /healthz, /readyz, /metrics, /queue/."`
	AdminPassword redact.Secret `env:"SANDPIPER_ADMIN_PASSWORD" desc:"Password of the user admin for /queue/ on the operators' address. Empty: no such page."`
	PublicURL     string        `env:"SANDPIPER_PUBLIC_URL" desc:"Address under which GitHub and people reach the bot; links lead there. Empty: no links."`

	GitHubURL    string `env:"SANDPIPER_GITHUB_URL" shown:"https://github.com" desc:"Where people and git see GitHub. For GitHub Enterprise Server: https://HOST."`
	GitHubAPIURL string `env:"SANDPIPER_GITHUB_API_URL" shown:"https://api.github.com; for another GITHUB_URL: its /api/v3" desc:"Root of the REST API, used as it is given."`

	AppID          int64           `env:"SANDPIPER_APP_ID" desc:"The App's id, from its settings page at GitHub."`
	PrivateKey     redact.Secret   `env:"SANDPIPER_PRIVATE_KEY" desc:"The App's private key, PEM. Line breaks may be written as \\n."`
	PrivateKeyFile string          `env:"SANDPIPER_PRIVATE_KEY_FILE" desc:"File with the private key, instead of the key itself."`
	SigningKeyFile string          `env:"SANDPIPER_SIGNING_KEY_FILE" desc:"File with an Ed25519 key (PEM, PKCS #8: openssl genpkey -algorithm ed25519), by which manifests of pull requests are signed. Empty: they are not."`
	WebhookSecrets []redact.Secret `env:"SANDPIPER_WEBHOOK_SECRETS" desc:"Webhook secrets, separated by commas, each of at least 16 bytes. Several are for rotation: add the new one, change GitHub, remove the old one."`
	// GitHub advises one second between requests that change something, lest its secondary limits close the door:
	// https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api
	WritePace time.Duration `env:"SANDPIPER_WRITE_PACE" envDefault:"1s" desc:"Least time between two changes at GitHub, for each installation."`

	// Three minutes: a lost label is noticed before whoever put it on has given up, and the App's own limit of 5,000 calls
	// an hour is not felt.
	SweepEvery time.Duration `env:"SANDPIPER_SWEEP_EVERY" envDefault:"3m" desc:"How often GitHub's log of deliveries is read for what was lost; every tenth time the trigger label is looked for as well."`

	Label string `env:"SANDPIPER_LABEL" envDefault:"sandpiper" desc:"The label that starts a mission."`
	// Without a default here the policy's own default says which agent it is.
	Agent string `env:"SANDPIPER_AGENT" desc:"Agent of repositories whose policy names none: a profile, a command, or the absolute path of a program of this machine."`
	// For 'sandpiper try', and for an organisation that leaves nothing to its repositories.
	PolicyFile string `env:"SANDPIPER_POLICY_FILE" desc:"A policy that is used instead of every repository's own."`
	// An agent mostly waits for its model, its checks use every core; four keep a small machine busy and not swamped.
	Workers int `env:"SANDPIPER_WORKERS" envDefault:"4" desc:"Missions that have a sandbox on this machine at the same time; the others wait in the queue."`
	// Half of a machine for one repository: a run of labels there does not keep the others waiting.
	PerRepository   int `env:"SANDPIPER_MISSIONS_PER_REPOSITORY" envDefault:"4" desc:"Missions of one repository that have a sandbox at the same time."`
	PerInstallation int `env:"SANDPIPER_MISSIONS_PER_INSTALLATION" envDefault:"20" desc:"Missions of one installation that have a sandbox at the same time."`

	Backend string `env:"SANDPIPER_BACKEND" envDefault:"auto" desc:"What provides sandboxes: overlay (they cost next to nothing), worktree (works everywhere), or auto: overlay where the machine can."`
	// Room for some dozens of checkouts of a large repository, or all that a small one will ever need.
	BasesSize Size `env:"SANDPIPER_BASES_SIZE" envDefault:"20GiB" desc:"Disk for cached checkouts, which the backend overlay makes one of for each commit. Those that no run needs go when they take more, the least recently used first."`
	// A week: a person who comes back after some days off still finds the workspace of a failed run.
	Retention time.Duration `env:"SANDPIPER_RETENTION" envDefault:"168h" desc:"How long the workspace of an ended run is kept before the reaper takes it."`
	// The limits hold a mistake, not an effort: they are far above what builds and tests of large projects were seen to
	// take, and far below what brings a small machine down.
	LimitProcs  int           `env:"SANDPIPER_LIMIT_PROCS" envDefault:"1024" desc:"Processes and threads in one sandbox."`
	LimitMemory Size          `env:"SANDPIPER_LIMIT_MEMORY" envDefault:"4GiB" desc:"Memory of one sandbox."`
	LimitDisk   Size          `env:"SANDPIPER_LIMIT_DISK" envDefault:"4GiB" desc:"What a workspace may grow by."`
	LimitOutput Size          `env:"SANDPIPER_LIMIT_OUTPUT" envDefault:"64MiB" desc:"Output of one command."`
	LimitFiles  int           `env:"SANDPIPER_LIMIT_FILES" envDefault:"200000" desc:"New files in one workspace."`
	LimitWall   time.Duration `env:"SANDPIPER_LIMIT_WALL" envDefault:"1h" desc:"Time for one command."`
	SystemPaths []string      `env:"SANDPIPER_SYSTEM_PATHS" desc:"More host paths that sandboxes may read, separated by commas, such as /opt/toolchain. Where there is a bin directory in one, it is on PATH."`

	// Only whoever runs the machine can open a private network: a policy comes with a repository.
	EgressNetworks []netip.Prefix `env:"SANDPIPER_EGRESS_NETWORKS" desc:"Private networks, as 10.1.0.0/16, separated by commas, in which hosts may lie that a policy names: a company's mirror."`

	Models
	Boundary

	LogLevel  slog.Level `env:"SANDPIPER_LOG_LEVEL" envDefault:"INFO" desc:"debug, info, warn or error."`
	LogFormat string     `env:"SANDPIPER_LOG_FORMAT" envDefault:"text" desc:"text or json."`

	origin  map[string]string // of each variable that is not at its default
	unknown []string
}

// Database is the path of the SQLite database, or the address of the PostgreSQL one, which may hold a password.
func (c *Config) Database() string {
	if c.DatabaseURL == "" {
		return filepath.Join(c.StateDir, "sandpiper.db")
	}
	return databasePath(c.DatabaseURL)
}

// Limits are the limits of one sandbox.
func (c *Config) Limits() sandbox.Limits {
	return sandbox.Limits{
		Procs:  c.LimitProcs,
		Memory: int64(c.LimitMemory),
		Disk:   int64(c.LimitDisk),
		Output: int64(c.LimitOutput),
		Files:  c.LimitFiles,
		Wall:   c.LimitWall,
	}
}

// Secrets are all values that must never be shown, for the redactor.
func (c *Config) Secrets() []redact.Secret {
	secrets := append([]redact.Secret(nil), c.WebhookSecrets...)
	for _, s := range []redact.Secret{c.PrivateKey, c.AdminPassword} {
		if !s.IsZero() {
			secrets = append(secrets, s)
		}
	}
	for _, m := range c.Endpoints() {
		if !m.Key.IsZero() {
			secrets = append(secrets, m.Key)
		}
	}
	if u, err := url.Parse(c.DatabaseURL); err == nil {
		password, _ := u.User.Password()
		all := []string{password}
		for _, name := range inQuery {
			all = append(all, u.Query()[name]...)
		}
		for _, s := range all {
			if s != "" {
				secrets = append(secrets, redact.NewSecret(s))
			}
		}
	}
	return secrets
}
