package mission

import (
	"context"
	"fmt"
	"time"

	"github.com/google/go-github/v60/github"

	"github.com/sandpiper-bot/sandpiper/app/installation"
)

// Bots are not heard at all, but an automation with a person's account is, and two that answer each other never end
// (anthropics/claude-code#85760). So the bot answers no more often than people would ask in one thread.
const (
	mostReplies = 20
	replyWindow = time.Hour
)

// repliesIn begins the key of each answer to a command in one thread.
func repliesIn(repo installation.Repo, number int) string {
	return fmt.Sprintf("reply:%d:%d:", repo.ID, number)
}

// mute says whether a thread has had its answers for now, and tells it there, once.
func (e *Engine) mute(ctx context.Context, gh *github.Client, repo installation.Repo, number int, key string) (bool, error) {
	if _, answered, err := e.Store.Effect(ctx, repliesIn(repo, number)+key); answered || err != nil {
		return false, err // the same delivery again
	}
	n, err := e.Store.EffectsSince(ctx, repliesIn(repo, number), e.Now().Add(-replyWindow))
	if n < mostReplies || err != nil {
		return false, err
	}
	once := fmt.Sprintf("muted:%d:%d", repo.ID, number)
	return true, e.sayOnce(ctx, gh, repo, number, once, fmt.Sprintf("More than %d commands in an hour look like automations that answer each other. "+
		"Until an hour has passed I only obey `/sandpiper cancel` and `/sandpiper discard` here, and say nothing. This is said once.", mostReplies))
}
