package jail

import "context"

// RunWithout is Run with parts of the jail left out, for tests that show that they are missed.
func RunWithout(parts ...string) func(context.Context, Spec, Stdio) (Result, error) {
	var w without
	for _, part := range parts {
		*map[string]*bool{
			"namespaces": &w.namespaces, "environment": &w.environment, "read-only root": &w.readOnly, "seccomp": &w.seccomp, "guard": &w.guard,
			"capabilities": &w.caps, "user": &w.uid, "control group": &w.cgroup, "rlimits": &w.rlimits, "watcher": &w.watch,
		}[part] = true
	}
	return func(ctx context.Context, s Spec, std Stdio) (Result, error) { return run(ctx, s, std, w) }
}
