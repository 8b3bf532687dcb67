package installation

import (
	"context"
	"time"
)

// gitTime is how long a git command may need the token that it was given, which is what get promises.
const gitTime = refreshBefore

type repoKey struct{ installation, id int64 }

func keyOf(repo Repo) repoKey { return repoKey{repo.InstallationID, repo.ID} }

// use is who is at work in a repository.
type use struct {
	holds    int
	released bool // revoke when the last hold ends
}

// lend notes that git got a token, whose end nobody will tell.
func (t *tokens) lend(repo Repo, token *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.uses[keyOf(repo)] == nil {
		token.lent = t.now()
	}
}

func (t *tokens) hold(repo Repo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.uses[keyOf(repo)]
	if u == nil {
		u = &use{}
		t.uses[keyOf(repo)] = u
	}
	u.holds++
}

// done ends a hold. It gives the tokens to revoke if it was the last one and a release waits for it.
func (t *tokens) done(repo Repo) []*token {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.uses[keyOf(repo)]
	if u.holds--; u.holds > 0 {
		return nil
	}
	delete(t.uses, keyOf(repo))
	if !u.released {
		return nil
	}
	return t.take(keyOf(repo))
}

// release gives the tokens to revoke; none while somebody holds the repository.
func (t *tokens) release(repo Repo) []*token {
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.uses[keyOf(repo)]; u != nil {
		u.released = true
		return nil
	}
	return t.take(keyOf(repo))
}

// take ends the use of a repository's tokens, and gives those that can be revoked at once.
func (t *tokens) take(repo repoKey) []*token {
	var now []*token
	for key, s := range t.slots {
		if (repoKey{key.installation, key.repo}) != repo || s.token == nil {
			continue
		}
		token := s.token
		s.token = nil
		t.retire(token)
		if left := token.lent.Add(gitTime).Sub(t.now()); left > 0 && !t.closed {
			t.running.Go(func() { t.revokeAfter(left, repo.installation, token) })
			continue
		}
		now = append(now, token)
	}
	return now
}

// revokeAfter revokes when the time is over, or when the App is closed.
func (t *tokens) revokeAfter(d time.Duration, installation int64, token *token) {
	_ = wait(t.ctx, d) // however it ends, the token goes
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), mintTimeout)
	defer cancel()
	t.app.revoke(ctx, installation, token)
}

// close ends the mints and takes every token out.
func (t *tokens) close() map[repoKey][]*token {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.stop()
	t.running.Wait()

	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[repoKey][]*token)
	for key, s := range t.slots {
		if s.token != nil {
			repo := repoKey{key.installation, key.repo}
			all[repo] = append(all[repo], s.token)
		}
	}
	clear(t.slots)
	return all
}
