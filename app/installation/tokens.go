package installation

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/sandbox/redact"
)

const (
	// refreshBefore is what a token has left at least when it is given out: a fetch or push that takes minutes must not
	// outlive it. One minute was not enough for others: https://github.com/spotify/github-java-client/pull/108
	refreshBefore = 10 * time.Minute
	mintTimeout   = time.Minute
	// A refusal that a person must lift is remembered for a moment, lest each call asks again:
	// https://github.com/ossf/allstar/issues/314
	refusedFor = time.Minute
	// provenFor is how long a token is believed to be good because it was.
	provenFor = time.Minute
)

type tokenKey struct {
	installation, repo int64
	purpose            Purpose
}

type token struct {
	value            redact.Secret
	refresh, expires time.Time // by our clock
	proven           time.Time // when GitHub took it last, as far as was looked
	lent             time.Time // when git got it last without a Hold
	forget           func()    // takes it out of the redactor
}

// slot holds the token of one key, and the one mint that is under way for it.
type slot struct {
	token   *token
	mint    *mint
	refused error
	until   time.Time // refused counts until then
}

type mint struct {
	done  chan struct{}
	token *token
	err   error
}

// tokens keeps the live tokens.
type tokens struct {
	app      *App
	redactor *redact.Redactor
	now      func() time.Time
	stop     context.CancelFunc
	ctx      context.Context // of every mint: a mint serves many callers and must not end with the first of them
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	slots  map[tokenKey]*slot
	uses   map[repoKey]*use
	past   []*token // no longer given out, not yet expired
}

func newTokens(app *App, redactor *redact.Redactor, now func() time.Time) *tokens {
	ctx, stop := context.WithCancel(context.Background())
	return &tokens{app: app, redactor: redactor, now: now, ctx: ctx, stop: stop, slots: make(map[tokenKey]*slot), uses: make(map[repoKey]*use)}
}

var errClosed = errors.New("installation tokens: closed")

// get gives the live token of a key. Callers that come while one is minted wait for that one.
func (t *tokens) get(ctx context.Context, repo Repo, purpose Purpose) (*token, error) {
	m, old, err := t.join(repo, purpose)
	if m == nil {
		return old, err
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.err != nil && old != nil && old.expires.Sub(t.now()) > time.Minute {
		t.app.log.Warn("token is not refreshed; the old one still serves", "repository", repo.ID, "purpose", purpose, "expires", old.expires, "error", m.err)
		return old, nil
	}
	return m.token, m.err
}

// join finds a token that is good, or the mint to wait for, with the token that it will replace.
func (t *tokens) join(repo Repo, purpose Purpose) (*mint, *token, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, nil, errClosed
	}
	key := tokenKey{repo.InstallationID, repo.ID, purpose}
	s := t.slots[key]
	if s == nil {
		s = &slot{}
		t.slots[key] = s
	}
	now := t.now()
	switch {
	case s.token != nil && now.Before(s.token.refresh):
		return nil, s.token, nil
	case s.refused != nil && now.Before(s.until):
		return nil, nil, s.refused
	case s.mint == nil:
		s.mint = &mint{done: make(chan struct{})}
		m := s.mint
		t.running.Go(func() { t.run(m, key, repo) })
	}
	return s.mint, s.token, nil
}

// run mints for one key and lets everybody who waits for it know.
func (t *tokens) run(m *mint, key tokenKey, repo Repo) {
	ctx, cancel := context.WithTimeout(t.ctx, mintTimeout)
	defer cancel()
	m.token, m.err = t.mintOne(ctx, repo, key.purpose)
	t.app.watch.Minted(m.err == nil)

	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(m.done)
	t.sweep(t.now())
	s := t.slots[key]
	if s == nil || s.mint != m {
		// The installation was forgotten meanwhile. Who waits still gets this token; nobody else will.
		t.retire(m.token)
		return
	}
	s.mint, s.refused = nil, nil
	switch {
	case m.err == nil:
		t.retire(s.token)
		s.token = m.token
	case errors.Is(m.err, ErrSuspended) || errors.Is(m.err, ErrWithdrawn):
		s.refused, s.until = m.err, t.now().Add(refusedFor)
	}
}

func (t *tokens) retire(token *token) {
	if token != nil {
		t.past = append(t.past, token)
	}
}

// sweep takes what has expired out of the redactor: a bot that lives for months would otherwise look for thousands.
func (t *tokens) sweep(now time.Time) {
	live := t.past[:0]
	for _, token := range t.past {
		if now.Before(token.expires) {
			live = append(live, token)
			continue
		}
		token.forget()
	}
	clear(t.past[len(live):])
	t.past = live
	for key, s := range t.slots {
		switch {
		case s.mint != nil:
		case s.token == nil && !now.Before(s.until): // released, or refused a while ago
			delete(t.slots, key)
		case s.token != nil && !now.Before(s.token.expires): // of a repository that nobody has asked about for an hour
			s.token.forget()
			delete(t.slots, key)
		}
	}
}

func (t *tokens) unproven(token *token) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now().Sub(token.proven) > provenFor
}

func (t *tokens) proved(token *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	token.proven = t.now()
}

// drop forgets a token that GitHub did not take any more, unless it was replaced already.
func (t *tokens) drop(repo Repo, purpose Purpose, dead *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.slots[tokenKey{repo.InstallationID, repo.ID, purpose}]; s != nil && s.token == dead {
		t.retire(s.token)
		s.token = nil
	}
}

func (t *tokens) forget(installation int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.slots {
		if key.installation == installation {
			t.retire(s.token)
			delete(t.slots, key)
		}
	}
}

// mintOne makes a token for one repository and purpose, and tries it.
func (t *tokens) mintOne(ctx context.Context, repo Repo, purpose Purpose) (*token, error) {
	made, resp, err := t.app.app.Apps.CreateInstallationToken(ctx, repo.InstallationID, &github.InstallationTokenOptions{
		RepositoryIDs: []int64{repo.ID},
		Permissions:   purpose.permissions(),
	})
	if err != nil {
		return nil, t.app.refusal(ctx, repo, purpose, resp, err)
	}
	secret := redact.NewSecret(made.GetToken())
	fresh := &token{value: secret, forget: t.redactor.Add(secret)}
	// The length of the token's life is taken from GitHub's clock, so that a wrong one here neither uses a dead token
	// nor mints at every call.
	life := max(made.GetExpiresAt().Sub(serverTime(resp.Response, time.Now())), 0)
	fresh.expires = t.now().Add(life)
	fresh.refresh = fresh.expires.Add(-min(refreshBefore, life/2))
	if err := t.app.validate(ctx, repo, purpose, fresh); err != nil {
		t.app.revoke(ctx, repo.InstallationID, fresh)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.retire(fresh)
		return nil, err
	}
	fresh.proven = t.now()
	return fresh, nil
}
