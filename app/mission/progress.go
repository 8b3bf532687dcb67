package mission

import (
	"context"
	"time"

	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/gitstore"
)

// fetchReports is how often the log says how far a fetch is. One that is done sooner is not mentioned.
const fetchReports = 10 * time.Second

// sayingHowFar has fetches under the context tell the log how far they are. It is called by one fetch at a time.
func (e *Engine) sayingHowFar(ctx context.Context, m *store.Mission) context.Context {
	last := e.Now()
	return gitstore.WithProgress(ctx, func(p gitstore.Progress) {
		if now := e.Now(); now.Sub(last) >= fetchReports {
			last = now
			e.Log.Info("fetching", "mission", m.ID, "repository", m.Owner+"/"+m.Name, "phase", p.Phase, "percent", p.Percent, "detail", p.Detail)
		}
	})
}
