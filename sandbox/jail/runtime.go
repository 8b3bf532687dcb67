package jail

// Runtime runs trees by an OCI runtime, or something like it, instead of bubblewrap. What is around the tree stays the jail's:
// its network, streams, control groups, limits that are watched, and its end.
type Runtime interface {
	// Bundle writes what the runtime needs and returns the command line that runs the command and ends when it has ended. It is
	// executed as the first process of a pid namespace, so that all dies with it. Its own streams lead nowhere: those of the
	// command are the descriptors 6 (input), 4 and 5 (output and error), for runtimes put pipes of their own between, which
	// lose the order. The command must not get descriptor 3: to it is written {"exit-code":N} when the command has ended, or
	// {"not-started":N} where it could not be executed.
	Bundle(b Bundle) (argv []string, err error)
	// Failure is called after the end if neither was written. It says what the runtime has left in the bundle's directory about it.
	Failure(dir string) error
}

// Bundle is what a runtime is told.
type Bundle struct {
	Dir    string // an empty directory in memory, which only the runtime sees
	Name   string // of [A-Za-z0-9._-], and of this tree alone
	Spec   Spec
	Limits Limits  // with defaults
	UID    int     // the user and group that the command runs as, on the host and inside
	Mounts []Mount // in place of those of the Spec, System, Workspace and Home: from where the runtime can reach them
}
