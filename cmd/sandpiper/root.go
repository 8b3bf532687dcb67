package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// exitError ends the program with a status of its own. A nil err has been told already.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// usageError is a mistake in how a command was called: status 2, as everywhere in Unix.
func usageError(err error) error { return exitError{code: 2, err: err} }

const rootHelp = `Sandpiper lets coding agents work on GitHub issues without trusting them.

Label an issue: the bot makes a sandbox on the repository, lets an agent work in it, inspects what
changed, runs the repository's checks, and opens a pull request. You review and merge; the bot cannot.

New here?
  sandpiper demo                                        watch the whole way, on a GitHub of its own
  sandpiper try --repo . --task task.md --agent ./a.sh  the same on your repository, nothing leaves it
  sandpiper doctor                                      what this machine and its settings can do

Exit status: 0 done, 1 it failed, 2 the command was called wrongly. Commands that add to these say so.`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sandpiper",
		Short:         "Coding agents in sandboxes, pull requests for humans",
		Long:          rootHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
		RunE:                       func(cmd *cobra.Command, args []string) error { return cmd.Help() },
		SuggestionsMinimumDistance: 2,
		Version:                    readBuildInfo().String(),
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newDemoCommand(), newTryCommand(), newServeCommand(), newPolicyCommand(), newReplayCommand(), newVersionCommand(), newDoubleCommand(), newSuperviseCommand(), newDoctorCommand(), newSetupCommand(),
		newSandboxCommand(), newReapCommand(), newProbeCommand(), newAuditCommand(), newFindingsCommand(), newMissionsCommand(), newManifestCommand(),
	)
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(about, strings.Join(rest, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	})
	return root
}

// unknownCommand says what may have been meant.
func unknownCommand(parent *cobra.Command, word string) error {
	near := parent.SuggestionsFor(word)
	if len(near) == 0 {
		return usageError(fmt.Errorf("unknown command %s; '%s --help' lists them", word, parent.CommandPath()))
	}
	return usageError(fmt.Errorf("unknown command %s; did you mean %s?", word, strings.Join(near, " or ")))
}

// exactArgs is cobra.ExactArgs with words for people.
func exactArgs(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return usageError(errors.New("'" + cmd.CommandPath() + "' takes " + what + "; see --help"))
	}
}
