package gitstore

import "io"

// ProgressWriter reads what git says.
func ProgressWriter(key string, report func(Progress)) io.Writer {
	return &progress{key: key, report: report}
}
