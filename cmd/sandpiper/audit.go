package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app"
	"github.com/sandpiper-bot/sandpiper/app/audit"
)

const auditHelp = `Verify and export the audit record: what the bot did, decided and was asked for, and what its probes found.

Each record holds the hash of the one before it. The chain lies in the database; a copy is written to audit/*.jsonl in the state
directory, of which the older files may be moved to where the bot cannot write.`

const auditVerifyHelp = `Find records that were removed, changed or moved.

Without an argument the chain in the database and its copy in files are read, each by itself and one against the other. With files,
those are read, in the order given.

A chain that was written anew to its end is consistent in itself. To find that, keep the head (the number and hash that this command
prints) where the bot cannot write, and give it back by --head.

Exit status: 0 nothing was found, 1 something was, 2 the command was called wrongly.`

func newAuditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "audit", Short: "Verify and export the audit record", Long: auditHelp, Args: exactArgs(0, "one of its subcommands"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newAuditVerifyCommand(), newAuditExportCommand())
	return cmd
}

func newAuditVerifyCommand() *cobra.Command {
	var head string
	cmd := &cobra.Command{Use: "verify [FILE…]", Short: "Find records that were removed, changed or moved", Long: auditVerifyHelp,
		Example: "  sandpiper audit verify\n  sandpiper audit verify --head 1042:9b1f…\n  sandpiper audit verify old/audit-*.jsonl"}
	asJSON := jsonFlag(cmd)
	cmd.Flags().StringVar(&head, "head", "", "a head of an earlier time, SEQ:HASH, which must still be in the chain")
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		kept, err := parseHead(head)
		if err != nil {
			return usageError(err)
		}
		reports, err := verifyAudit(cmd, files)
		if err != nil {
			return err
		}
		ok := true
		for _, r := range reports {
			if kept != nil && r.Records > 0 {
				r.Expect(*kept)
			}
			ok = ok && r.OK()
		}
		if err := printAudit(cmd, reports, *asJSON); err != nil {
			return err
		}
		if !ok {
			return exitError{code: 1}
		}
		return nil
	}
	return cmd
}

func parseHead(text string) (*audit.Head, error) {
	if text == "" {
		return nil, nil
	}
	number, hash, _ := strings.Cut(text, ":")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || seq < 1 || len(hash) != 64 {
		return nil, errors.New("--head is SEQ:HASH, as 'sandpiper audit verify' prints it")
	}
	return &audit.Head{Seq: seq, Hash: hash}, nil
}

func verifyAudit(cmd *cobra.Command, files []string) ([]*audit.Report, error) {
	if len(files) > 0 {
		r, err := audit.VerifyFiles(files...)
		return []*audit.Report{r}, err
	}
	r, err := openRecord(cmd.Context(), os.Environ())
	if err != nil {
		return nil, err
	}
	defer r.close()
	copied, err := (&audit.Files{Dir: app.AuditDir(r.config.StateDir)}).Verify()
	if err != nil {
		return nil, err
	}
	// The files first: a record that comes meanwhile is then missing in neither.
	chain, err := audit.VerifyChain(cmd.Context(), r.store)
	if err != nil {
		return nil, err
	}
	chain.Compare(copied)
	return []*audit.Report{chain, copied}, nil
}

func printAudit(cmd *cobra.Command, reports []*audit.Report, asJSON bool) error {
	out := cmd.OutOrStdout()
	if asJSON {
		return writeJSON(out, reports)
	}
	for _, r := range reports {
		if r.Records == 0 {
			fmt.Fprintf(out, "%s: no records\n", r.Where)
		} else {
			fmt.Fprintf(out, "%s: records %d to %d, head %d:%s\n", r.Where, r.First, r.Head.Seq, r.Head.Seq, r.Head.Hash)
		}
		for _, p := range r.Problems {
			fmt.Fprintf(out, "  %s\n", p)
		}
		if r.OK() && r.Records > 0 {
			fmt.Fprintln(out, "  whole")
		}
	}
	return nil
}

func newAuditExportCommand() *cobra.Command {
	var after int64
	cmd := &cobra.Command{Use: "export", Short: "Write the records as JSON lines", Args: exactArgs(0, "no arguments, only flags"),
		Long: "Write the records as JSON lines, each with its hash as the last member: 'sandpiper audit verify FILE' reads them."}
	cmd.Flags().Int64Var(&after, "after", 0, "only records after this number")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := openRecord(cmd.Context(), os.Environ())
		if err != nil {
			return err
		}
		defer r.close()
		return audit.Export(cmd.Context(), r.store, after, cmd.OutOrStdout())
	}
	return cmd
}
