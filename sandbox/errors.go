package sandbox

import (
	"errors"
	"fmt"
)

// What a caller can do something about. errors.Is finds them; ErrState and ErrUnavailable are found by errors.As.
var (
	ErrUnknown    = errors.New("no such sandbox or command")
	ErrBusy       = errors.New("a command is running in the sandbox")
	ErrUnrecorded = errors.New("something in the workspace cannot be recorded")
	ErrNothing    = errors.New("nothing differs from the base in what was selected")
)

// ErrState says that a sandbox is not in a state for what was asked.
type ErrState struct {
	ID   ID
	Is   State
	Want string // for people; "" where what is is all that is wrong with it
}

func (e *ErrState) Error() string {
	if e.Want == "" {
		return fmt.Sprintf("sandbox %s is %s", e.ID, e.Is)
	}
	return fmt.Sprintf("sandbox %s is %s, must be %s", e.ID, e.Is, e.Want)
}

// ErrUnavailable says that a backend cannot work on this machine.
type ErrUnavailable struct {
	Backend string
	Reason  string
}

func (e *ErrUnavailable) Error() string {
	return fmt.Sprintf("backend %s is not available here: %s", e.Backend, e.Reason)
}
