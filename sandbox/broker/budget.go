package broker

import (
	"fmt"
	"sync"

	"github.com/sandpiper-bot/sandpiper/sandbox"
)

// budget counts what one command uses. What is under way is held against it as an estimate of its input, so that many calls at
// once do not pass it together: what it can be passed by is the output of the calls that are under way, at most maxInFlight.
type budget struct {
	grant sandbox.Grant

	mu   sync.Mutex
	used sandbox.Spent
	held sandbox.Spent
}

func newBudget(g sandbox.Grant) *budget { return &budget{grant: g} }

// take lets a call begin, or says which part of the budget is used up. Call settle for it once.
func (b *budget) take(estimate sandbox.Spent) (settle func(real sandbox.Spent), reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, u, h := b.grant, b.used, b.held
	switch {
	case g.Requests > 0 && u.Requests+h.Requests >= g.Requests:
		reason = fmt.Sprintf("the %d requests that this run may make are used up", g.Requests)
	case g.Tokens > 0 && u.Input+u.Output+h.Input >= g.Tokens:
		reason = fmt.Sprintf("the %d tokens that this run may use are used up", g.Tokens)
	case g.Money > 0 && u.Money+h.Money >= g.Money:
		reason = fmt.Sprintf("the %.2f US dollars that this run may spend are used up", float64(g.Money)/1e6)
	}
	if reason != "" {
		return nil, reason
	}
	b.held = add(h, estimate, 1)
	return func(real sandbox.Spent) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.held = add(b.held, estimate, -1)
		b.used = add(b.used, real, 1)
	}, ""
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
