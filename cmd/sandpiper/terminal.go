package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// isTerminal says whether a person reads what is written to f.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
