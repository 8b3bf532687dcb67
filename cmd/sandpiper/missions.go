package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sandpiper-bot/sandpiper/app/queue"
	"github.com/sandpiper-bot/sandpiper/app/store"
	"github.com/sandpiper-bot/sandpiper/sandbox/quote"
)

const missionsHelp = `Look at missions and steer them, in the database of the bot.

The bot may be running: what is asked for here is written down, and it obeys within seconds. Without a running bot it is obeyed
at the next start.

  sandpiper missions list           the newest missions; --open leaves out those that are over
  sandpiper missions show m-abcde   one mission with its runs and promotion
  sandpiper missions cancel m-abcde ends it; what the agent made is kept in the store, and its pull request stays open
  sandpiper missions retry m-abcde  starts again what has ended, from the current base

Exit status: 0 done, 1 it failed or there is no such mission, 2 the command was called wrongly.`

func newMissionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "missions", Short: "Look at missions and steer them", Long: missionsHelp, Args: exactArgs(0, "a command: list, show, retry or cancel"),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	asJSON := cmd.PersistentFlags().Bool("json", false, "as JSON")
	var open bool
	var most int
	list := &cobra.Command{
		Use: "list", Short: "The newest missions", Args: exactArgs(0, "no arguments"),
		RunE: onStore(func(ctx context.Context, out io.Writer, s *store.Store, _ []string) error {
			all, err := s.Missions(ctx, open, most)
			if err != nil {
				return err
			}
			return listMissions(out, all, *asJSON)
		}),
	}
	list.Flags().BoolVar(&open, "open", false, "only those that are not over")
	list.Flags().IntVar(&most, "most", 50, "how many")
	cmd.AddCommand(list,
		&cobra.Command{Use: "show MISSION", Short: "One mission", Args: exactArgs(1, "a mission"),
			RunE: onStore(func(ctx context.Context, out io.Writer, s *store.Store, args []string) error {
				return showMission(ctx, out, s, args[0], *asJSON)
			})},
		&cobra.Command{Use: "cancel MISSION", Short: "End a mission", Args: exactArgs(1, "a mission"),
			RunE: onStore(func(ctx context.Context, out io.Writer, s *store.Store, args []string) error {
				m, err := s.Cancel(ctx, args[0], operator(), time.Now())
				switch {
				case errors.Is(err, store.ErrOver):
					return fmt.Errorf("mission %s has ended already; 'sandpiper missions retry %[1]s' starts it again", args[0])
				case err != nil:
					return noMission(args[0], err)
				}
				return saidOf(out, m, "is being cancelled", *asJSON)
			})},
		&cobra.Command{Use: "retry MISSION", Short: "Start an ended mission again", Args: exactArgs(1, "a mission"),
			RunE: onStore(func(ctx context.Context, out io.Writer, s *store.Store, args []string) error {
				m, err := s.Again(ctx, args[0], time.Now())
				switch {
				case errors.Is(err, store.ErrOver):
					return fmt.Errorf("mission %s has not ended; cancel it first: 'sandpiper missions cancel %[1]s'", args[0])
				case err != nil:
					return noMission(args[0], err)
				}
				return saidOf(out, m, "begins", *asJSON)
			})},
	)
	return cmd
}

// onStore opens the database of the settings for a command. It makes none: an empty one would only hide a wrong setting.
func onStore(do func(context.Context, io.Writer, *store.Store, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := loadConfig()
		if err != nil {
			return err
		}
		if address := c.Database(); !store.IsPostgres(address) {
			if _, err := os.Stat(address); err != nil {
				return fmt.Errorf("database: %w; set SANDPIPER_STATE_DIR or DATABASE_URL as for the bot", err)
			}
		}
		s, err := store.Open(cmd.Context(), c.Database())
		if err != nil {
			return err
		}
		// What becomes due here is queued for the bot, which else would find it at its next look around only.
		ticks, err := queue.OpenToAdd(queue.Options{Database: s.Pool(), Postgres: s.Postgres(), Log: newLogger(cmd.ErrOrStderr(), c), Now: time.Now})
		if err != nil {
			return errors.Join(err, s.Close())
		}
		s.Enqueue(func(ctx context.Context, tx *sql.Tx, t store.Tick) error {
			return ticks.Add(ctx, tx, t.Mission, t.Host, t.At)
		})
		return errors.Join(do(cmd.Context(), cmd.OutOrStdout(), s, args), s.Close())
	}
}

// noMission says where the ids of missions are found.
func noMission(id string, err error) error {
	if errors.Is(err, store.ErrNone) {
		return fmt.Errorf("there is no mission %s; 'sandpiper missions list' shows what there is", id)
	}
	return err
}

// operator is who asks, as people will read it: a user of this machine, not of GitHub.
func operator() string {
	if u, err := user.Current(); err == nil {
		return "the operator " + u.Username
	}
	return "an operator"
}

// missionLine is a mission for programs.
type missionLine struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Repository string    `json:"repository"`
	Number     int       `json:"number"`
	Title      string    `json:"title"`
	Requester  string    `json:"requester"`
	Step       string    `json:"step"`
	Run        string    `json:"run"`
	Host       string    `json:"host,omitempty"`
	Want       string    `json:"want,omitempty"`
	Outcome    string    `json:"outcome,omitempty"`
	Message    string    `json:"message,omitempty"`
	Pull       int       `json:"pull_request,omitempty"`
	PullURL    string    `json:"pull_request_url,omitempty"`
	Base       string    `json:"base,omitempty"`
	Head       string    `json:"head,omitempty"`
	Failures   int       `json:"failures,omitempty"`
	Trouble    string    `json:"trouble,omitempty"`
	Created    time.Time `json:"created"`
	Due        time.Time `json:"due,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
}

func lineOf(m *store.Mission) missionLine {
	return missionLine{
		ID: m.ID, Kind: string(m.Kind), Repository: m.Owner + "/" + m.Name, Number: m.Number, Title: m.Title, Requester: m.Requester, Step: m.Step,
		Run: m.Run, Host: m.Host, Want: m.Want, Outcome: m.Outcome, Message: m.Message, Pull: m.Pull, PullURL: m.PullURL, Base: m.Base, Head: m.Head,
		Failures: m.Failures + m.Defects, Trouble: m.Trouble, Created: m.CreatedAt, Due: m.DueAt, Ended: m.EndedAt,
	}
}

func listMissions(out io.Writer, all []*store.Mission, asJSON bool) error {
	lines := make([]missionLine, 0, len(all))
	for _, m := range all {
		lines = append(lines, lineOf(m))
	}
	if asJSON {
		return encode(out, lines)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MISSION\tISSUE\tSTEP\tOUTCOME\tPULL\tBY\tAGE\tTITLE")
	for _, l := range lines {
		pull := "-"
		if l.Pull != 0 {
			pull = fmt.Sprintf("#%d", l.Pull)
		}
		outcome := l.Outcome
		if outcome == "" {
			outcome = "-"
		}
		fmt.Fprintf(w, "%s\t%s#%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.Repository, l.Number, l.Step, outcome, pull, l.Requester,
			time.Since(l.Created).Round(time.Second), quote.Line(l.Title))
	}
	return w.Flush()
}

func showMission(ctx context.Context, out io.Writer, s *store.Store, id string, asJSON bool) error {
	m, err := s.Mission(ctx, id)
	if err != nil {
		return noMission(id, err)
	}
	runs, err := s.Runs(ctx, id)
	if err != nil {
		return err
	}
	line := lineOf(m)
	if asJSON {
		return encode(out, struct {
			missionLine
			Runs []runLine `json:"runs"`
		}{line, runLines(runs)})
	}
	row := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" {
			fmt.Fprintf(out, "%-12s %s\n", name, quote.Line(text))
		}
	}
	row("mission", line.ID)
	row("for", fmt.Sprintf("%s#%d %s", line.Repository, line.Number, line.Title))
	row("by", line.Requester)
	row("step", line.Step)
	row("outcome", line.Outcome)
	row("message", line.Message)
	row("asked for", line.Want)
	row("base", line.Base)
	row("head", line.Head)
	row("pull", line.PullURL)
	row("host", line.Host)
	row("failures", line.Failures)
	row("because", line.Trouble)
	row("created", line.Created.Format(time.RFC3339))
	if !line.Ended.IsZero() {
		row("ended", line.Ended.Format(time.RFC3339))
	} else if !line.Due.IsZero() {
		row("due", line.Due.Format(time.RFC3339))
	}
	for _, r := range runLines(runs) {
		row("run", fmt.Sprintf("%s  agent %s  result %.12s", r.ID, r.Agent, r.Result))
	}
	return nil
}

// runLine is a run for programs.
type runLine struct {
	ID      string    `json:"id"`
	Attempt int       `json:"attempt"`
	Base    string    `json:"base"`
	Result  string    `json:"result,omitempty"`
	Agent   string    `json:"agent,omitempty"`
	Created time.Time `json:"created"`
	Ended   time.Time `json:"ended,omitzero"`
}

func runLines(runs []*store.Run) []runLine {
	lines := make([]runLine, 0, len(runs))
	for _, r := range runs {
		lines = append(lines, runLine{r.ID, r.Attempt, r.Base, r.Result, r.Agent, r.CreatedAt, r.EndedAt})
	}
	return lines
}

func saidOf(out io.Writer, m *store.Mission, what string, asJSON bool) error {
	if asJSON {
		return encode(out, lineOf(m))
	}
	_, err := fmt.Fprintf(out, "mission %s of %s/%s#%d %s\n", m.ID, m.Owner, m.Name, m.Number, what)
	return err
}

func encode(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
