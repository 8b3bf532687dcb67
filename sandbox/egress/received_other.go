//go:build !linux

package egress

import "net"

// received is not known here. There are no sandboxes here either.
func received(*net.TCPConn) int64 { return 0 }
