package jail

import (
	"context"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// ListenAddr is where a tree finds what Spec.Listen serves.
const ListenAddr = "127.0.0.1:3128"

// ownNetwork gives this thread, and what it starts, a network namespace of its own in which there is the loopback interface
// only, and opens the listener in it. A socket stays in the namespace in which it was made, whoever holds it: this process
// serves it from outside.
//
// The namespace belongs to whoever made it. Ours therefore is out of the reach of anything inside, and only root can make one
// so: for an ordinary user the namespace would have to be below a user namespace, which a process with several threads cannot enter.
func ownNetwork() (net.Listener, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("%w: own network: %w", ErrUnavailable, err)
	}
	if err := loopbackUp(); err != nil {
		return nil, fmt.Errorf("%w: own loopback: %w", ErrUnavailable, err)
	}
	return listen()
}

func listen() (net.Listener, error) {
	var c net.ListenConfig
	c.SetMultipathTCP(false) // splice(2) is for plain TCP
	l, err := c.Listen(context.Background(), "tcp4", ListenAddr)
	if err != nil {
		return nil, fmt.Errorf("%w: listen inside: %w", ErrUnavailable, err)
	}
	return l, nil
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("interface flags", unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo))
}
