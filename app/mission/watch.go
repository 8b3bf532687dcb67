package mission

import (
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Watcher is told what happens, for metrics and traces. Its methods are called from many goroutines and must return at once.
type Watcher interface {
	Ticked()
	StepDone(StepDone)
	DeliveryDone(Handled)
}

// Result is how one go at a step ended.
type Result string

// The results.
const (
	ResultDone    Result = "done"
	ResultWaiting Result = "waiting" // nothing to do yet, or it was interrupted
	ResultRetry   Result = "retry"
	ResultEnded   Result = "ended" // it failed for good
)

// StepDone is one go at a step.
type StepDone struct {
	Mission      store.Mission // after the step
	Step         string
	Result       Result
	Err          error
	Began, Ended time.Time
	Waited       time.Duration // for a place, where the step was the end of that
}

// Handled is a delivery that was acted on.
type Handled struct {
	ID, Event, Outcome string // the outcome begins with later where it will be tried again
	Age                time.Duration
}

// unwatched is the Watcher of an engine that has none.
type unwatched struct{}

func (unwatched) Ticked()              {}
func (unwatched) StepDone(StepDone)    {}
func (unwatched) DeliveryDone(Handled) {}
