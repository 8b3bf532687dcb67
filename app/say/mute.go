package say

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
	ReplyWindow = time.Hour
)

// Refuse tells a person once why they are not obeyed, and in one thread not more people in an hour than are answered there: accounts
// cost nothing.
func (p *Poster) Refuse(ctx context.Context, gh *github.Client, repo installation.Repo, number int, login, class, text string) error {
	refused := RefusalsIn(repo, number)
	n, err := p.Effects.EffectsSince(ctx, refused, p.Now().Add(-ReplyWindow))
	if err != nil || n >= mostReplies {
		return err
	}
	return p.Once(ctx, gh, repo, number, refused+login+":"+class, text)
}

// RefusalsIn begins the key of each refusal in one thread.
func RefusalsIn(repo installation.Repo, number int) string {
	return fmt.Sprintf("refuse:%d:%d:", repo.ID, number)
}

// RepliesIn begins the key of each answer to a command in one thread.
func RepliesIn(repo installation.Repo, number int) string {
	return fmt.Sprintf("reply:%d:%d:", repo.ID, number)
}

// Mute says whether a thread has had its answers for now, and tells it there, once.
func (p *Poster) Mute(ctx context.Context, gh *github.Client, repo installation.Repo, number int, key string) (bool, error) {
	if _, answered, err := p.Effects.Effect(ctx, RepliesIn(repo, number)+key); answered || err != nil {
		return false, err // the same delivery again
	}
	n, err := p.Effects.EffectsSince(ctx, RepliesIn(repo, number), p.Now().Add(-ReplyWindow))
	if n < mostReplies || err != nil {
		return false, err
	}
	once := fmt.Sprintf("muted:%d:%d", repo.ID, number)
	return true, p.Once(ctx, gh, repo, number, once, fmt.Sprintf("More than %d commands in an hour look like automations that answer each other. "+
		"Until an hour has passed I only obey `/sandpiper cancel` and `/sandpiper discard` here, and say nothing. This is said once.", mostReplies))
}
