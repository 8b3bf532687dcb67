//go:build !linux

package jail

import (
	"context"
	"fmt"
)

// Usage is what directories take on the disk.
type Usage struct {
	Bytes int64 `json:"bytes"`
	Files int   `json:"files"`
}

var errLinux = fmt.Errorf("%w: it needs Linux", ErrUnavailable)

// Run refuses.
func Run(context.Context, Spec, Stdio) (Result, error) {
	return Result{Reason: FailedToStart}, errLinux
}

// Measure refuses.
func Measure(...string) (Usage, error) { return Usage{}, errLinux }

// Sweep has nothing to remove.
func Sweep(context.Context) ([]string, error) { return nil, nil }

// Check refuses.
func Check(context.Context) (Report, error) { return Report{}, errLinux }
