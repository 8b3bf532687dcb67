package app

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandpiper-bot/sandpiper/app/config"
	"github.com/sandpiper-bot/sandpiper/sandbox"
	"github.com/sandpiper-bot/sandpiper/sandbox/broker"
	"github.com/sandpiper-bot/sandpiper/sandbox/container"
	"github.com/sandpiper-bot/sandpiper/sandbox/egress"
	"github.com/sandpiper-bot/sandpiper/sandbox/git"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
	"github.com/sandpiper-bot/sandpiper/sandbox/overlay"
	"github.com/sandpiper-bot/sandpiper/sandbox/worktree"
)

// openSandboxes opens those of the bot, which starts with no git that is too old; a command line finds that out when it makes a store.
func (a *App) openSandboxes(o Options) (err error) {
	if a.stores, a.sandboxes, err = OpenSandboxes(a.Config, o.Supervisor, a.recordSandbox, o.Log); err == nil {
		_, err = a.stores.GitVersion()
	}
	return err
}

// OpenSandboxes opens the stores and the manager of a state directory, which tells record what happens (nil: nobody). It needs no
// settings of GitHub.
func OpenSandboxes(c *config.Config, supervisor []string, record func(sandbox.Event), log *slog.Logger) (*gitstore.Stores, *sandbox.Manager, error) {
	g, err := git.New(git.Options{Log: log})
	if err != nil {
		return nil, nil, err
	}
	stores, err := gitstore.Open(filepath.Join(c.StateDir, "stores"), g)
	if err != nil {
		return nil, nil, err
	}
	desk, err := openBroker(c, stores, log)
	if err != nil {
		return nil, nil, err
	}
	way := egress.Options{AllowAddresses: c.EgressNetworks}
	if way.Upstream, err = upstream(os.Environ()); err != nil {
		return nil, nil, err
	}
	common := worktree.Options{Stores: stores, System: c.SystemPaths, Broker: desk, Egress: way}
	manager, err := sandbox.Open(sandbox.Config{
		StateDir: c.StateDir, Stores: stores, Default: c.Backend, Supervisor: supervisor, Limits: c.Limits(), Record: record, Log: log,
		// A supervisor has to build the same boundary as we would, and gets nothing else. The keys of the models are among that: the
		// broker of a command is in its supervisor.
		HandOver: slices.Concat(c.HandOver(), wayOut(os.Environ())),
		SupervisorEnv: []string{"PATH=" + os.Getenv("PATH"), "SANDPIPER_SYSTEM_PATHS=" + strings.Join(c.SystemPaths, ","),
			"SANDPIPER_EGRESS_NETWORKS=" + networks(c.EgressNetworks), "SANDPIPER_RUNTIME=" + c.Runtime, "SANDPIPER_IMAGE=" + c.Image},
		Backends: []sandbox.Backend{
			overlay.New(overlay.Options{StateDir: c.StateDir, Stores: stores, Budget: int64(c.BasesSize), System: c.SystemPaths, Broker: desk, Egress: way}),
			worktree.New(common), container.New(container.Options{Options: common, Runtime: c.Runtime, Image: c.Image, Cache: filepath.Join(c.StateDir, "images")}),
		},
	})
	return stores, manager, err
}

// openBroker makes the broker with every endpoint that has a key.
func openBroker(c *config.Config, stores *gitstore.Stores, log *slog.Logger) (*broker.Broker, error) {
	models := map[string]broker.Upstream{}
	for _, m := range c.Endpoints() {
		models[m.Name] = broker.Upstream{URL: m.URL, Key: m.Key}
	}
	return broker.New(broker.Options{Models: models, Stores: stores, Log: log})
}

// endpoints are the models that can be offered: their base addresses inside, by name.
func endpoints(c *config.Config) map[string]string {
	out := map[string]string{}
	for _, m := range c.Endpoints() {
		if !m.Key.IsZero() {
			out[m.Name] = broker.Endpoint(m.Name)
		}
	}
	return out
}

// wayOut are the settings with which the machine reaches the internet: a proxy, whose address may hold a password, and
// certificates.
func wayOut(environ []string) []string {
	names := []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
	var out []string
	for _, kv := range environ {
		if name, value, _ := strings.Cut(kv, "="); value != "" && slices.Contains(names, name) {
			out = append(out, kv)
		}
	}
	return out
}

// upstream is the proxy by which this machine reaches others, if it needs one: sandboxes then reach theirs through it too.
func upstream(environ []string) (*url.URL, error) {
	for _, name := range []string{"https_proxy=", "HTTPS_PROXY="} {
		for _, kv := range environ {
			address, ok := strings.CutPrefix(kv, name)
			if !ok || address == "" {
				continue
			}
			if !strings.Contains(address, "://") { // as curl takes it
				address = "http://" + address
			}
			u, err := url.Parse(address)
			if err != nil { // its text may hold a password
				return nil, fmt.Errorf("%s is not the address of a proxy", strings.TrimSuffix(name, "="))
			}
			return u, nil
		}
	}
	return nil, nil
}

func networks(prefixes []netip.Prefix) string {
	var words []string
	for _, p := range prefixes {
		words = append(words, p.String())
	}
	return strings.Join(words, ",")
}
