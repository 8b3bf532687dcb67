package jail

import (
	"context"
	"errors"
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
// The namespace belongs to whoever made it: this one is out of the reach of anything inside. An ordinary user gets it from
// the stage.
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

// handOver is the stage's part for an ordinary user: it opens the listener in the network namespace in which it was started and
// sends it through an inherited socket.
func handOver(socket int) error {
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("own loopback: %w", err)
	}
	l, err := listen()
	if err != nil {
		return err
	}
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Sendmsg(socket, []byte{1}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		return os.NewSyscallError("sendmsg", err)
	}
	return errors.Join(unix.Close(socket), l.Close())
}

// receive takes the listener that the stage has sent. It was sent before bubblewrap said anything.
func (t *tree) receive() error {
	if t.handed == nil {
		return nil
	}
	defer t.handed.Close()
	message, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(t.handed.Fd()), message, rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return fmt.Errorf("listener: %w", os.NewSyscallError("recvmsg", err))
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("listener: %d messages: %w", len(messages), errors.Join(err, unix.EPROTO))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return fmt.Errorf("listener: %d descriptors: %w", len(fds), errors.Join(err, unix.EPROTO))
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer f.Close()
	if t.serve, err = net.FileListener(f); err != nil {
		return fmt.Errorf("listener: %w", err)
	}
	return nil
}

// sockets are two ends of one connection, over which descriptors can be sent.
func (c *closers) sockets() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs = os.NewFile(uintptr(fds[0]), "listener"), os.NewFile(uintptr(fds[1]), "listener")
	c.files = append(c.files, ours, theirs)
	return ours, theirs, nil
}
