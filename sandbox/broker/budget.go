package broker

import (
	"context"
	"fmt"
	"sync"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// budget counts what one command uses. What is under way is held against it as the most that it may cost, so that many calls at once
// do not pass it together: where there is not enough left for one more, it waits until another has told what it did cost. What the
// budget can be passed by is one call.
type budget struct {
	grant sandbox.Grant

	mu      sync.Mutex
	used    sandbox.Spent
	held    sandbox.Spent
	settled chan struct{} // closed when a call has told its cost, and made anew
}

func newBudget(g sandbox.Grant) *budget { return &budget{grant: g, settled: make(chan struct{})} }

// errSpent says which part of a budget is used up.
type errSpent struct{ part string }

func (e *errSpent) Error() string { return "the budget is used up: " + e.part }

// take lets a call begin that costs most at worst. Call settle for it once. The error is an errSpent, or that of ctx.
func (b *budget) take(ctx context.Context, most sandbox.Spent) (settle func(real sandbox.Spent), err error) {
	for {
		wait, err := b.try(most)
		if err != nil {
			return nil, err
		}
		if wait == nil {
			return func(real sandbox.Spent) { b.settle(most, real) }, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try gives what to wait for, if the call cannot begin now.
func (b *budget) try(most sandbox.Spent) (wait <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, u := b.grant, b.used
	switch {
	case g.Requests > 0 && u.Requests+b.held.Requests >= g.Requests:
		return nil, &errSpent{fmt.Sprintf("the %d requests that this run may make are used up", g.Requests)}
	case g.Tokens > 0 && u.Input+u.Output >= g.Tokens:
		return nil, &errSpent{fmt.Sprintf("the %d tokens that this run may use are used up", g.Tokens)}
	case g.Money > 0 && u.Money >= g.Money:
		return nil, &errSpent{fmt.Sprintf("the %.2f US dollars that this run may spend are used up", float64(g.Money)/1e6)}
	}
	held := add(b.held, most, 1)
	over := g.Tokens > 0 && u.Input+u.Output+held.Input+held.Output > g.Tokens || g.Money > 0 && u.Money+held.Money > g.Money
	if over && b.held.Requests > 0 {
		return b.settled, nil
	}
	b.held = held
	return nil, nil
}

func (b *budget) settle(most, real sandbox.Spent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = add(b.held, most, -1)
	b.used = add(b.used, real, 1)
	close(b.settled)
	b.settled = make(chan struct{})
}

func add(a, b sandbox.Spent, sign int64) sandbox.Spent {
	return sandbox.Spent{Requests: a.Requests + sign*b.Requests, Input: a.Input + sign*b.Input, Output: a.Output + sign*b.Output,
		Money: a.Money + sign*b.Money}
}

func (b *budget) spent() sandbox.Spent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
