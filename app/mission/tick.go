package mission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/installation"
	"github.com/sandpiper-bot/sandpiper/app/outcome"
	"github.com/sandpiper-bot/sandpiper/app/store"
)

// Times of a tick. A lease outlives two missed renewals and ends before a minute is over.
const (
	leaseFor   = 40 * time.Second
	renewEvery = 10 * time.Second
	wishEvery  = time.Second      // how soon a wish that another bot took is seen
	parkAfter  = 50 * time.Second // a tick that only waits makes room for others then
	retryLease = time.Second
)

var (
	// errInterrupted ends a tick because a person asked for something meanwhile; it is nobody's failure.
	errInterrupted = errors.New("interrupted by a command")
	// errParked ends the waiting for a command that runs on by itself: time is up, or the bot is stopping.
	errParked = errors.New("parked")
)

// errNewer leaves a step to a bot of a newer version, which shares the database while bots are replaced one by one.
const errNewer = outcome.Passing("not known to this version of the bot; another one has to take it")

// Work is one tick: it moves a mission on until it has to wait for something, and says when to look again; zero when only an
// event moves it. One worker at a time has a mission, among all bots.
func (e *Engine) Work(ctx context.Context, id string) (again time.Time, err error) {
	worker := fmt.Sprintf("%s/%d", e.Host, e.ticks.Add(1))
	m, err := e.Store.Lease(ctx, id, worker, e.Now(), e.Now().Add(leaseFor))
	switch {
	case errors.Is(err, store.ErrLeased):
		return e.Now().Add(retryLease), nil
	case errors.Is(err, store.ErrNone):
		return time.Time{}, nil
	case err != nil || m.Ended():
		return time.Time{}, err
	}
	defer func() {
		err = errors.Join(err, e.Store.Unlease(context.WithoutCancel(ctx), id, worker))
		e.reschedule()
	}()
	if m.Host != "" && m.Host != e.Host { // its sandbox is on another host's disk
		return time.Time{}, e.Queue.AddNow(ctx, m.ID, m.Host)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer e.attend(ctx, m, worker, cancel)()
	e.Watch.Ticked()
	release := e.GitHub.Hold(repoOf(m))
	defer release(context.WithoutCancel(ctx))
	return e.tick(ctx, id)
}

// attend renews the lease of a mission and interrupts its tick when a person asks for something. The result ends that.
func (e *Engine) attend(ctx context.Context, m *store.Mission, worker string, cancel context.CancelCauseFunc) (leave func()) {
	e.mu.Lock()
	e.ticking[m.ID] = cancel
	e.mu.Unlock()
	held := e.Now() // for leaseFor from then on; another bot may take the mission after that
	tried := held
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(wishEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			ask, answered := context.WithTimeout(ctx, renewEvery) // a database that is cut off may not answer at all
			now, err := e.Store.Mission(ask, m.ID)
			wish := err == nil && newWish(m, now)
			if e.Now().Sub(tried) >= renewEvery {
				tried = e.Now()
				if _, err = e.Store.Lease(ask, m.ID, worker, tried, tried.Add(leaseFor)); err == nil {
					held = tried
				}
			}
			answered()
			if wish || errors.Is(err, store.ErrLeased) || e.Now().Sub(held) >= leaseFor-wishEvery {
				cancel(errInterrupted)
				return
			}
		}
	}()
	return func() {
		cancel(nil)
		<-done
		e.mu.Lock()
		delete(e.ticking, m.ID)
		e.mu.Unlock()
	}
}

// newWish says whether a person has asked for something since the tick began. What the tick itself has cleared is none.
func newWish(before, now *store.Mission) bool {
	return now.Want != "" && now.Want != before.Want || now.NextHead != "" && now.NextHead != before.NextHead
}

// interrupt ends the present tick of a mission at once, if it is in this process.
func (e *Engine) interrupt(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if cancel := e.ticking[id]; cancel != nil {
		cancel(errInterrupted)
	}
}

// parkable bounds the waiting for something that goes on by itself. It has no deadline: whoever is in it gives context.Canceled as its
// error, which is no failure of the step, and not DeadlineExceeded, which is one of a call.
func (e *Engine) parkable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(parkAfter, func() { cancel(errParked) })
	stop := context.AfterFunc(e.life, func() { cancel(errParked) })
	return ctx, func() { stop(); timer.Stop(); cancel(nil) }
}

// tick does steps, each of which is saved before the next one begins.
func (e *Engine) tick(ctx context.Context, id string) (again time.Time, err error) {
	began := e.Now()
	for {
		m, err := e.Store.Mission(context.WithoutCancel(ctx), id)
		switch {
		case err != nil:
			return time.Time{}, err
		case m.Ended(), m.DueAt.IsZero():
			return time.Time{}, nil
		case m.DueAt.After(e.Now()), ctx.Err() != nil, e.life.Err() != nil, e.Now().Sub(began) > parkAfter:
			return m.DueAt, nil
		}
		if err := e.once(ctx, m); err != nil {
			return time.Time{}, err
		}
	}
}

// once does one step and saves what became of it. Its own errors are those of the database.
func (e *Engine) once(ctx context.Context, m *store.Mission) error {
	log := e.Log.With("mission", m.ID, "issue", fmt.Sprintf("%s/%s#%d", m.Owner, m.Name, m.Number), "run", m.Run)
	began := e.Now()
	name := m.Step
	to, err := e.work(ctx, m)
	// What the step did has to be saved even if the program is asked to stop now.
	ctx = context.WithoutCancel(ctx)
	done := StepDone{Step: name, Result: ResultDone, Err: err, Began: began}
	defer func() {
		if m.Ended() {
			e.ended(ctx, m)
		}
		done.Mission, done.Ended = *m, e.Now()
		e.Watch.StepDone(done)
	}()
	if err != nil {
		done.Result, err = e.failed(ctx, log.With("step", name), m, err)
		return err
	}
	m.Failures, m.Defects, m.Trouble = 0, 0, ""
	m.Step = to.step
	m.DueAt = e.Now().Add(to.after)
	if to.idle {
		m.DueAt = time.Time{}
	}
	if to.step == stepEnded {
		m.EndedAt = e.Now()
		m.DueAt = time.Time{}
	}
	if err := e.Store.Save(ctx, m, e.Now()); err != nil {
		return err
	}
	if name == to.step {
		done.Result = ResultWaiting
	} else {
		if name == stepQueue && to.step == stepCreate {
			done.Waited = e.Now().Sub(m.ReadyAt)
		}
		log.Info("step done", "step", name, "next", to.step, "found", to.found, "took", e.Now().Sub(began), "outcome", m.Outcome, "pull", m.Pull, "head", m.Head)
	}
	return nil
}

// work obeys what a person asked for, takes up a newer head, or does the next step. A panic in it is a failure of the step.
func (e *Engine) work(ctx context.Context, m *store.Mission) (_ next, err error) {
	defer func() {
		if r := recover(); r != nil {
			e.panicked(r, "mission", m.ID, "step", m.Step)
			err = errors.New("the bot met a defect of its own")
		}
	}()
	if m.Want != "" {
		return e.obey(ctx, m)
	}
	if m.NextHead != "" && m.Step != stepTake {
		return e.supersede(ctx, m)
	}
	do := steps[m.Kind][m.Step]
	if do == nil {
		return next{}, fmt.Errorf("step %q: %w", m.Step, errNewer)
	}
	return do(e, ctx, m)
}

// long is after how many failures in a row people are told what is waited for: about a minute.
const long = 6

// failuresLike counts the failures of a step that were of the kind of an error.
func failuresLike(m *store.Mission, err error) *int {
	if outcome.Passes(err) {
		return &m.Failures
	}
	return &m.Defects
}

// failed decides what becomes of a mission whose step ended in an error.
func (e *Engine) failed(ctx context.Context, log *slog.Logger, m *store.Mission, err error) (Result, error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted) || errors.Is(err, errParked) {
		return ResultWaiting, nil // shutting down, or a person's wish: the step is found again as it is
	}
	failures := failuresLike(m, err)
	retry, final := outcome.Judge(err, *failures)
	if limited := (*installation.ErrLimited)(nil); !errors.As(err, &limited) { // to be told to wait is no failure
		*failures++
	}
	if final == nil {
		log.Warn("step failed, will be tried again", "error", err, "in", retry, "failures", *failures)
		m.DueAt, m.Trouble = e.Now().Add(retry), e.Redact(outcome.Plain(err))
		if m.Failures == long {
			if err := e.tell(ctx, m); err != nil { // as it must be if GitHub is what is away
				log.Warn("status comment", "error", err)
			}
		}
		return ResultRetry, e.Store.Save(ctx, m, e.Now())
	}
	log.Warn("step ended the work", "outcome", final.Outcome, "message", final.Message, "error", err)
	if m.Step == stepClose { // the end of the end: nothing is left to try but to say so
		if m.Outcome == "" {
			m.Outcome, m.Message = string(final.Outcome), e.Redact(final.Message)
		}
		if err := e.tellEnd(ctx, m); err != nil {
			if err := e.untoldEnd(ctx, m, err); err != nil {
				return ResultRetry, err
			}
		}
		m.Step, m.EndedAt, m.DueAt = stepEnded, e.Now(), time.Time{}
		return ResultEnded, e.Store.Save(ctx, m, e.Now())
	}
	m.Outcome, m.Message = string(final.Outcome), e.Redact(final.Message)
	m.Step, m.Failures, m.Defects, m.Trouble, m.DueAt = afterEnd(m, final), 0, 0, "", e.Now()
	return ResultEnded, e.Store.Save(ctx, m, e.Now())
}
