package mission

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Wake has Run look at once whether something is due.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default: // it has been told already
	}
}

// idlePoll bounds how long Run sleeps although nothing is due, in case a clock was set back.
const idlePoll = 30 * time.Second

// Run handles deliveries and ticks missions until ctx ends, and returns when all of them have stopped. Whatever is under way
// then is found again by the next Run.
func (e *Engine) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	slots := make(chan struct{}, max(e.Workers, 1))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := e.dispatch(ctx, slots, &workers); err != nil && ctx.Err() == nil {
			e.Log.Error("cannot read what is due", "error", err)
		}
		timer.Reset(e.untilDue(ctx))
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-e.wake:
		}
	}
}

// untilDue is how long to sleep. What is due but in work already is looked at again when its worker wakes Run.
func (e *Engine) untilDue(ctx context.Context) time.Duration {
	at, err := e.Store.NextDue(ctx)
	if err != nil || at.IsZero() {
		return idlePoll
	}
	return min(max(at.Sub(e.Now()), 20*time.Millisecond), idlePoll)
}

func (e *Engine) dispatch(ctx context.Context, slots chan struct{}, workers *sync.WaitGroup) error {
	deliveries, err := e.Store.DueDeliveries(ctx, e.Now(), 100)
	if err != nil {
		return err
	}
	for _, d := range deliveries {
		e.spawn(ctx, workers, nil, "delivery:"+d.ID, func(ctx context.Context) { e.deliver(ctx, d) })
	}
	missions, err := e.Store.DueMissions(ctx, e.Now(), 1000)
	if err != nil {
		return err
	}
	for _, m := range missions {
		e.spawn(ctx, workers, slots, m.ID, func(ctx context.Context) {
			if err := e.Tick(ctx, m.ID); err != nil && ctx.Err() == nil {
				e.Log.Error("tick", "mission", m.ID, "error", err)
			}
		})
	}
	return nil
}

// spawn starts work under a key unless it runs already or no slot is free. A panic ends that work and no other.
func (e *Engine) spawn(ctx context.Context, workers *sync.WaitGroup, slots chan struct{}, key string, do func(context.Context)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ticking[key] != nil {
		return
	}
	if slots != nil {
		select {
		case slots <- struct{}{}:
		default:
			return // the next free worker wakes Run
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	e.ticking[key] = cancel
	workers.Add(1)
	go func() {
		defer workers.Done()
		defer func() {
			if r := recover(); r != nil {
				e.Log.Error("panic", "key", key, "panic", fmt.Sprint(r))
				e.afterPanic(context.WithoutCancel(ctx), key)
			}
			cancel(nil)
			e.mu.Lock()
			delete(e.ticking, key)
			e.mu.Unlock()
			if slots != nil {
				<-slots
			}
			e.Wake()
		}()
		do(ctx)
	}()
}

// afterPanic keeps a mission whose step panics from being tried without end.
func (e *Engine) afterPanic(ctx context.Context, key string) {
	m, err := e.Store.Mission(ctx, key)
	if errors.Is(err, store.ErrNone) {
		return
	}
	if err == nil {
		err = e.failed(ctx, e.Log.With("mission", m.ID), m, errors.New("the bot met a defect of its own"))
	}
	if err != nil {
		e.Log.Error("after panic", "key", key, "error", err)
	}
}

// interrupt ends the present tick of a mission, so that a wish is seen now and not when a check has run to its end.
func (e *Engine) interrupt(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cancel := e.ticking[id]; cancel != nil {
		cancel(errInterrupted)
	}
}

// lane lets one delivery at a time act on an issue.
type lane struct {
	mu    sync.Mutex
	users int
}

func (e *Engine) inLane(key string, do func() error) error {
	e.mu.Lock()
	l := e.lanes[key]
	if l == nil {
		l = new(lane)
		e.lanes[key] = l
	}
	l.users++
	e.mu.Unlock()
	l.mu.Lock()
	defer func() {
		l.mu.Unlock()
		e.mu.Lock()
		if l.users--; l.users == 0 {
			delete(e.lanes, key)
		}
		e.mu.Unlock()
	}()
	return do()
}
