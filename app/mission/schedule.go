package mission

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Times of the machinery. A bot that dies is missed after hostGone, well within a minute; a tick that is lost is made again
// after overdue.
const (
	beatEvery      = 10 * time.Second
	hostGone       = 35 * time.Second
	reconcileEvery = 15 * time.Second
	overdue        = 10 * time.Second
	deliveryTime   = time.Minute            // that handling one delivery may take before another bot may try
	deliveryPoll   = 2 * time.Second        // how long one that another bot stored may lie
	mostAtOnce     = 16                     // deliveries that are handled at the same time
	idlePoll       = 200 * time.Millisecond // least sleep while something is due that is in work already
)

// Wake has Run look at once whether a delivery is due.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default: // it has been told already
	}
}

// Run handles deliveries and ticks missions until ctx ends, and returns when all of that has stopped. Whatever is under way
// then is found again by the next Run. It ends with an error where the database does not answer at its start.
func (e *Engine) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	e.life = ctx
	if err := e.arrive(ctx); err != nil {
		return err
	}
	var parts sync.WaitGroup
	parts.Go(func() { e.deliverAll(ctx) })
	parts.Go(func() { e.scheduleAll(ctx) })
	parts.Go(func() { e.every(ctx, beatEvery, nil, "heartbeat", e.beat) })
	parts.Go(func() { e.every(ctx, reconcileEvery, nil, "reconcile", e.reconcile) })
	err := e.Queue.Run(ctx)
	stop()
	parts.Wait()
	return err
}

// arrive takes back what a life of this bot before this one held.
func (e *Engine) arrive(ctx context.Context) error {
	if err := e.beat(ctx); err != nil {
		return err
	}
	if err := e.Store.UnleaseHost(ctx, e.Host); err != nil {
		return err
	}
	if !e.Store.Postgres() { // nobody else can be at them
		if err := e.Store.ReleaseDeliveries(ctx, e.Now()); err != nil {
			return err
		}
	}
	return e.requeue(ctx, e.Now())
}

func (e *Engine) beat(ctx context.Context) error {
	return e.Store.Beat(ctx, e.Host, e.HostName, e.Now())
}

// every does something now and then until ctx ends, and at once when it is told to; by nil it never is.
func (e *Engine) every(ctx context.Context, period time.Duration, now <-chan struct{}, what string, do func(context.Context) error) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-now:
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			e.Log.Error(what, "error", err)
		}
	}
}

// reconcile makes ticks again that were lost, wakes missions that wait although something is asked of them, and takes over what hosts that are gone had.
func (e *Engine) reconcile(ctx context.Context) error {
	return errors.Join(e.requeue(ctx, e.Now().Add(-overdue)), e.takeOver(ctx), e.Store.WakeAsked(ctx, e.Now()), e.mend(ctx))
}

func (e *Engine) requeue(ctx context.Context, before time.Time) error {
	lost, err := e.Store.Overdue(ctx, before, e.Now())
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range lost {
		errs = append(errs, e.Queue.AddNow(ctx, m.ID, m.Host))
	}
	return errors.Join(errs...)
}

// deliverAll handles deliveries as they come, several at once but one at a time for an issue.
func (e *Engine) deliverAll(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	slots := make(chan struct{}, mostAtOnce)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		claimed, err := e.Store.ClaimDeliveries(ctx, e.Now(), cap(slots)-len(slots), e.Now().Add(deliveryTime))
		if err != nil && ctx.Err() == nil {
			e.Log.Error("cannot read what is due", "error", err)
		}
		for _, d := range claimed {
			slots <- struct{}{}
			workers.Go(func() {
				defer func() { <-slots; e.Wake() }()
				defer e.survive("delivery " + d.ID)
				e.deliver(ctx, d)
			})
		}
		timer.Reset(e.untilDelivery(ctx))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-e.wake:
		}
	}
}

// survive keeps a defect of ours in one delivery from ending the bot. The delivery comes again when its claim runs out.
func (e *Engine) survive(what string) {
	if r := recover(); r != nil {
		e.panicked(r, "at", what)
	}
}

// panicked logs a defect of ours with the place where it is. It is called by the function that has recovered.
func (e *Engine) panicked(r any, where ...any) {
	e.Log.Error("panic", append(where, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))...)
}

func (e *Engine) untilDelivery(ctx context.Context) time.Duration {
	at, err := e.Store.NextDelivery(ctx)
	if err != nil || at.IsZero() {
		return deliveryPoll
	}
	return min(max(at.Sub(e.Now()), idlePoll), deliveryPoll)
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

// takeOver gives the missions of hosts that are gone to others.
func (e *Engine) takeOver(ctx context.Context) error {
	stranded, err := e.Store.Stranded(ctx, e.Now().Add(-hostGone))
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range stranded {
		if err := e.strand(ctx, m); err != nil && !errors.Is(err, store.ErrLeased) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
