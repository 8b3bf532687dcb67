// Package room knows what of a file system the bot keeps for itself.
//
// The package must not judge who fills a disk: it has the numbers only.
package room

// What commands leave free of a file system, whatever their own limits allow. The database, the records and the logs of the bot
// lie beside the workspaces: when nothing can be written any more, not even the command that filled the disk can be recorded
// and removed. 256 MiB is the log of a command four times over, and what a database grows by in months; 10,000 files are
// more than the records of a hundred runs. A small file system keeps a twentieth, so that most of it can be used.
const (
	reservedBytes = 256 << 20
	// Files is the reserve in files, where a twentieth is not less.
	Files = 10_000
)

// Reserve is how many bytes of a file system of a size are kept.
func Reserve(size int64) int64 { return min(reservedBytes, size/20) }
