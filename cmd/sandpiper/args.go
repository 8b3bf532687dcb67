package main

import "github.com/spf13/cobra"

// usageArgs makes a wrong number of arguments a mistake in the call: status 2.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError(err)
		}
		return nil
	}
}
