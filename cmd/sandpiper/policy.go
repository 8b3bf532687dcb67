package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app/policy"
)

const policyHelp = `Check and explain the policy of a repository: the file .github/sandpiper.yml.

The bot reads it at a commit of the default branch. Without a file its defaults are in force; 'sandpiper policy explain'
shows .github/sandpiper.yml of the working directory when it is given no file, and the defaults where there is none.

Exit status: 0 the file is good, 1 it has problems, 2 the command was called wrongly.`

func newPolicyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check and explain .github/sandpiper.yml",
		Long:  policyHelp,
		Args:  exactArgs(0, "one of its subcommands"),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyCheckCommand(), newPolicyExplainCommand(), newPolicySchemaCommand())
	return cmd
}

func newPolicyCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "check FILE",
		Short:   "Say every problem of a policy file, with line, column and a hint",
		Example: "  sandpiper policy check .github/sandpiper.yml\n  git show main:.github/sandpiper.yml | sandpiper policy check -",
		Args:    exactArgs(1, "one file, or - for the standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPolicy(cmd.InOrStdin(), args[0])
			if asJSON {
				return printPolicyJSON(cmd.OutOrStdout(), args[0], p, err)
			}
			var inv *policy.Invalid
			if errors.As(err, &inv) {
				fmt.Fprintln(cmd.ErrOrStderr(), inv)
				return exitError{code: 1}
			}
			if err != nil {
				return usageError(err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: good, %s\n", args[0], p.Digest())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON: file, ok, digest, problems")
	return cmd
}

func printPolicyJSON(w io.Writer, file string, p *policy.Policy, err error) error {
	report := struct {
		File     string           `json:"file"`
		OK       bool             `json:"ok"`
		Digest   string           `json:"digest,omitempty"`
		Problems []policy.Problem `json:"problems"`
	}{File: file, OK: err == nil, Problems: []policy.Problem{}}
	var inv *policy.Invalid
	switch {
	case errors.As(err, &inv):
		report.Problems = inv.Problems
	case err != nil:
		return usageError(err)
	default:
		report.Digest = p.Digest()
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(report); err != nil {
		return err
	}
	if !report.OK {
		return exitError{code: 1}
	}
	return nil
}

func newPolicyExplainCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Show what is in force, and where each setting comes from",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := exactArgs(1, "at most one file")(cmd, args); err != nil {
					return err
				}
			}
			p, err := explained(cmd.InOrStdin(), args)
			var inv *policy.Invalid
			switch {
			case errors.As(err, &inv):
				fmt.Fprintln(cmd.ErrOrStderr(), inv)
				return exitError{code: 1}
			case err != nil:
				return usageError(err)
			case asJSON:
				return json.NewEncoder(cmd.OutOrStdout()).Encode(p.Explain())
			}
			return writePolicy(cmd.OutOrStdout(), p.Explain())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as JSON: a list of key, value, from")
	return cmd
}

// ownPolicy is where a repository has its policy.
const ownPolicy = ".github/sandpiper.yml"

// explained is the policy of a file, or of the working directory.
func explained(stdin io.Reader, args []string) (*policy.Policy, error) {
	if len(args) > 0 {
		return readPolicy(stdin, args[0])
	}
	if _, err := os.Stat(ownPolicy); errors.Is(err, fs.ErrNotExist) {
		return policy.Default(), nil
	}
	return readPolicy(stdin, ownPolicy)
}

// writePolicy puts the origin, which is short, before the value, of which a long one would move the column for all others.
func writePolicy(w io.Writer, lines []policy.Line) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", l.Key, l.From, l.Value)
	}
	return tw.Flush()
}

func newPolicySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a policy file, for editors",
		Args:  exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policy.Schema())
			return err
		},
	}
}

// readPolicy reads a file, or the standard input for "-", and no more of it than a policy can have.
func readPolicy(stdin io.Reader, name string) (*policy.Policy, error) {
	in := stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return policy.Parse(name, data)
}
