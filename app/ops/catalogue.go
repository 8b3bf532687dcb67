package ops

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// kind is the type of a metric.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// entry is one metric, for the registry and for the page.
type entry struct {
	name   string // without the prefix
	kind   kind
	labels []string
	help   string // what it is
	alert  string // when somebody should look
}

const prefix = "sandpiper_"

// catalogue is every metric of our own. docs/metrics.md is made of it.
var catalogue = []entry{
	{"deliveries_total", counter, []string{"event", "outcome"}, "Webhooks that came in; outcome is accepted, duplicate, ignored or refused (refused ones carry no event: nobody has vouched for it).", "refused grows: a wrong secret, or somebody who tries the door"},
	{"deliveries_handled_total", counter, []string{"event", "outcome"}, "Stored deliveries that were acted on; outcome is mission, ignored, refused, failed, later, or done.", "failed grows"},
	{"delivery_age_seconds", histogram, nil, "From the receipt of a delivery to the end of handling it.", "the 99th percentile stays above 30 s"},
	{"deliveries_unhandled", gauge, nil, "Stored deliveries that wait to be handled.", "it does not return to 0"},
	{"delivery_oldest_age_seconds", gauge, nil, "Age of the oldest delivery that waits to be handled; 0 when none does.", "above 300 s"},
	{"last_delivery_age_seconds", gauge, nil, "Time since the last delivery was stored; -1 when none ever was.", "above what is usual for your organisation, such as a working day: the hook is dead and GitHub does not say so"},
	{"missions_open", gauge, []string{"step"}, "Missions that are not ended, by the step that is next.", "execute or verify stay at a level for longer than the time budget"},
	{"missions_ended_total", counter, []string{"outcome"}, "Missions that ended, by outcome.", "infrastructure or blocked by host grow"},
	{"queue_depth", gauge, nil, "Missions that wait for a place for their sandbox.", "it grows for an hour: more SANDPIPER_WORKERS, or another bot"},
	{"queue_oldest_wait_seconds", gauge, nil, "How long the first of them has waited; 0 when none waits.", "above what your people accept"},
	{"queue_wait_seconds", histogram, nil, "How long missions waited for their place.", "the 90th percentile stays above what your people accept"},
	{"ticks_total", counter, nil, "Looks at missions that this bot took.", "it stands still while missions_open is not 0"},
	{"steps_total", counter, []string{"step", "result"}, "Steps of missions; result is done, waiting, retry (failed, will be tried again) or ended (failed for good).", "retry grows faster than done"},
	{"step_seconds", histogram, []string{"step"}, "How long one go at a step took.", "the 99th percentile of a step nears 120 s, which a tick may take at most; for take, promote and report it is GitHub that is slow, for create and inspect the disk"},
	{"checks_open", gauge, nil, "Missions whose Check Runs are queued or in progress; those block a merge.", "it stays above 0 for longer than the checks' timeouts"},
	{"sandboxes", gauge, []string{"state"}, "Sandboxes on this machine.", "their number grows without end"},
	{"findings_total", counter, []string{"kind", "outcome"}, "Findings about the boundary, by kind and outcome.", "any breach, at once"},
	{"github_responses_total", counter, []string{"class"}, "Answers of GitHub: 2xx, 3xx, 304, 4xx, 5xx, limited, unreachable.", "5xx or unreachable for 10 minutes; limited at all"},
	{"github_quota_remaining", gauge, []string{"installation"}, "What GitHub said was left of the hourly quota; installation 0 is the App itself.", "below 500"},
	{"github_token_mints_total", counter, []string{"result"}, "Installation tokens asked for; result is made or refused.", "refused grows: key, clock, suspension or permissions"},
	{"reaper_removed_total", counter, nil, "Runs and left-overs that the reaper removed.", "it grows steadily: something does not clean up"},
	{"reaper_last_success_age_seconds", gauge, nil, "Time since the reaper last got through; -1 when it has not yet.", "above 3600 s"},
	{"sweep_last_age_seconds", gauge, nil, "Time since a bot of this database last swept GitHub's log of deliveries; -1 when none has.", "above 30 minutes"},
	{"sweep_failing", gauge, nil, "1 when the last sweep failed.", "1 for 30 minutes"},
	{"database_up", gauge, nil, "1 when the database answered this scrape.", "0"},
}

// byName finds an entry. A name that is not there is a mistake in this package.
func byName(name string) entry {
	for _, e := range catalogue {
		if e.name == name {
			return e
		}
	}
	panic("ops: no metric " + name)
}

func desc(name string) *prometheus.Desc {
	e := byName(name)
	return prometheus.NewDesc(prefix+e.name, e.help, e.labels, nil)
}

// Table is the page's table.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what | look when |\n| --- | --- | --- | --- | --- |\n")
	for _, e := range catalogue {
		fmt.Fprintf(&b, "| `%s%s` | %s | %s | %s | %s |\n", prefix, e.name, e.kind, strings.Join(e.labels, ", "), e.help, e.alert)
	}
	return b.String()
}
