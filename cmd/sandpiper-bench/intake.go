package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandpiper-bot/sandpiper/fixtures/payloads"
)

const (
	intakeConns = 32
	warmUp      = 500 * time.Millisecond // a virtual machine compiles what it runs often
)

type intakeOptions struct {
	dir, docs string
	rounds    int
	each      time.Duration
}

// intake sets the bot's intake, which stores a delivery before it answers, beside the least that a durable one can do and
// beside probot, which stores nothing. They run in turn, round after round.
func intake(ctx context.Context, args []string) error {
	var o intakeOptions
	f := flag.NewFlagSet("sandpiper-bench intake", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "", "directory on the file system to measure (default: that of temporary files)")
	f.StringVar(&o.docs, "docs", "", "directory with intake.md, which the figures go to (default: none)")
	f.IntVar(&o.rounds, "rounds", 7, "rounds")
	f.DurationVar(&o.each, "time", 2*time.Second, "time for each in a round")
	if err := f.Parse(args); err != nil {
		return err
	}
	work, err := os.MkdirTemp(o.dir, "sandpiper-intake-")
	if err != nil {
		return err
	}
	defer removeAll(work)
	kinds := []string{rivalFloor, rivalBot, rivalProbot}
	missing := installProbot(ctx, work)
	if missing != nil {
		kinds = kinds[:2]
	}
	found := map[string][]rates{}
	letters := mail()
	for round := range o.rounds {
		for i := range kinds {
			kind := kinds[(round+i)%len(kinds)] // nobody is always the first
			r, err := measureRival(ctx, kind, work, letters, o.each)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			found[kind] = append(found[kind], r)
		}
	}
	text := intakePage(found, missing, o)
	fmt.Println(text)
	if o.docs == "" {
		return nil
	}
	return writeSection(filepath.Join(o.docs, "intake.md"), "intake", text)
}

// letter is a payload with its signature.
type letter struct {
	body      []byte
	signature string
}

// mail is deliveries of 14 to 30 KB, which is what those of issues have.
func mail() (all []letter) {
	var text []byte
	for _, p := range payloads.All() {
		if p.Event == "issues" && bytes.Contains(p.Body, []byte(`"labeled"`)) {
			text = p.Body
			break
		}
	}
	key := []byte(`"body":"`)
	compact := bytes.ReplaceAll(text, []byte(`"body": "`), key)
	at := bytes.Index(compact, key) + len(key)
	rng := rand.New(rand.NewPCG(1, 2))
	for size := 14_000; size <= 30_000; size += 1000 {
		body := slices.Concat(compact[:at], prose(rng, size-len(compact)), compact[at:])
		all = append(all, letter{body, signature(body)})
	}
	return all
}

// prose is text that compresses about as badly as what people write: words in an order by chance.
func prose(rng *rand.Rand, size int) []byte {
	var words []string
	for _, p := range payloads.All() {
		words = append(words, strings.FieldsFunc(string(p.Body), func(r rune) bool { return r < 'A' || r > 'z' || r > 'Z' && r < 'a' })...)
	}
	slices.Sort(words)
	words = slices.Compact(words)
	var text []byte
	for len(text) < size {
		text = append(append(text, words[rng.IntN(len(words))]...), ' ')
	}
	return text[:max(size, 0)]
}

// rates is one measurement: deliveries a second, and how long they took in seconds.
type rates struct{ rate, p50, p99 float64 }

func measureRival(ctx context.Context, kind, work string, letters []letter, each time.Duration) (rates, error) {
	dir, err := os.MkdirTemp(work, kind+"-")
	if err != nil {
		return rates{}, err
	}
	defer os.RemoveAll(dir)
	r, err := startRival(kind, dir, work)
	if err != nil {
		return rates{}, err
	}
	defer r.stop()
	if _, err := knock(r.addr, letters, warmUp); err != nil {
		return rates{}, err
	}
	if err := ctx.Err(); err != nil {
		return rates{}, err
	}
	return knock(r.addr, letters, each)
}

// knock posts deliveries over all connections for a time, each with an id of its own.
func knock(addr string, letters []letter, each time.Duration) (rates, error) {
	began := time.Now()
	until := began.Add(each)
	var mu sync.Mutex
	var times []float64
	var errs []error
	var clients sync.WaitGroup
	for range intakeConns {
		clients.Go(func() {
			mine, err := post(addr, until, letters)
			mu.Lock()
			defer mu.Unlock()
			times, errs = append(times, mine...), append(errs, err)
		})
	}
	clients.Wait()
	took := time.Since(began)
	if err := errors.Join(errs...); err != nil || len(times) == 0 {
		return rates{}, fmt.Errorf("%d deliveries: %w", len(times), err)
	}
	slices.Sort(times)
	return rates{float64(len(times)) / took.Seconds(), times[len(times)/2], times[len(times)*99/100]}, nil
}

func post(addr string, until time.Time, letters []letter) (times []float64, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for n := 0; time.Now().Before(until); n++ {
		l := letters[n%len(letters)]
		head := fmt.Sprintf("POST /webhook HTTP/1.1\r\nHost: bot\r\nContent-Type: application/json\r\nX-GitHub-Event: issues\r\n"+
			"X-GitHub-Delivery: %08x-0000-4000-8000-%012x\r\nX-Hub-Signature-256: %s\r\nContent-Length: %d\r\n\r\n", rand.Uint32(), rand.Int64N(1<<48), l.signature, len(l.body))
		began := time.Now()
		if _, err := (&net.Buffers{[]byte(head), l.body}).WriteTo(conn); err != nil {
			return times, err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return times, err
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		if answer.StatusCode >= 300 {
			return times, fmt.Errorf("answer %s", answer.Status)
		}
		times = append(times, time.Since(began).Seconds())
	}
	return times, nil
}

func middle(v []float64) float64 { return slices.Sorted(slices.Values(v))[len(v)/2] }

func intakePage(found map[string][]rates, missing error, o intakeOptions) string {
	of := func(kind string, what func(rates) float64) (v []float64) {
		for _, r := range found[kind] {
			v = append(v, what(r))
		}
		return v
	}
	rate := func(r rates) float64 { return r.rate }
	ratio := func(to string) float64 {
		ours, theirs := of(rivalBot, rate), of(to, rate)
		for i := range ours {
			ours[i] /= theirs[i]
		}
		return middle(ours)
	}
	spread := func(kind string) float64 { return middle(of(kind, func(r rates) float64 { return r.p99 / r.p50 })) }
	type goal struct {
		what, must string
		got        float64
		ok         bool
	}
	goals := []goal{{"deliveries a second, beside the floor", "≥ 0.7 ×", ratio(rivalFloor), ratio(rivalFloor) >= 0.7}}
	if missing == nil {
		goals = append(goals, goal{"deliveries a second, beside probot", "≥ 1.1 ×", ratio(rivalProbot), ratio(rivalProbot) >= 1.1})
	}
	goals = append(goals, goal{"99 of 100 deliveries are answered within", "≤ 6 × the median", spread(rivalBot), spread(rivalBot) <= 6})

	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s.\n\n    make intake INTAKE=-rounds=%d\n\n", time.Now().UTC().Format(time.DateOnly), machine(), o.rounds)
	fmt.Fprintf(&b, "repeats it. %d connections post deliveries of 14 to 30 KB, each with a valid signature and an id of its own, to one server after the\n"+
		"other, round after round; a ratio is the median of the ratios of the rounds. sandpiper stores each delivery durably before it\n"+
		"answers. The floor is the least that can do that: a handler that verifies the signature and appends to a log, with one fdatasync\n"+
		"for all that came at the same time. probot %s hands the event to an App that does nothing, and stores nothing.\n\n"+
		"| what | must reach | measured | |\n| --- | --- | --- | --- |\n", intakeConns, probotVersion)
	for _, g := range goals {
		mark := "yes"
		if !g.ok {
			mark = "**no**"
		}
		if !g.ok && spread(rivalFloor) > 6 {
			mark += ", as the floor, whose machine had other work"
		}
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s |\n", g.what, g.must, g.got, mark)
	}
	if missing != nil {
		fmt.Fprintf(&b, "\nThe comparison with probot was skipped: %v.\n", missing)
	}
	b.WriteString("\n| | deliveries a second | median | 99 of 100 | of their median |\n| --- | --- | --- | --- | --- |\n")
	for _, kind := range []string{rivalFloor, rivalBot, rivalProbot} {
		if len(found[kind]) > 0 {
			fmt.Fprintf(&b, "| %s | %.0f | %s | %s | %.1f |\n", kind, middle(of(kind, rate)), ms(middle(of(kind, func(r rates) float64 { return r.p50 }))),
				ms(middle(of(kind, func(r rates) float64 { return r.p99 }))), spread(kind))
		}
	}
	return b.String()
}
