package broker

import "strings"

// price is in US dollars for a million tokens, which is millionths of a dollar for one.
type price struct {
	model                      string // a prefix: the longest that fits counts
	input, read, write, output float64
	long                       int64 // input tokens above which all input costs twice and output one and a half times as much; 0: never
}

// prices are list prices of the standard tier, for budgets and not for accounts: https://platform.claude.com/docs/en/about-claude/pricing,
// https://developers.openai.com/api/docs/pricing and https://ai.google.dev/gemini-api/docs/pricing as of November 2026. Where a price
// depends on the time of the year or the length of a prompt in another way than price can say, it is the higher one.
var prices = []price{
	{"claude-fable-5-1", 10, 0.25, 12.5, 50, 0},
	{"claude-mythos-5-1", 10, 0.25, 12.5, 50, 0},
	{"claude-fable-5", 10, 1, 12.5, 50, 0},
	{"claude-mythos-5", 10, 1, 12.5, 50, 0},
	{"claude-opus-5-5", 4, 0.2, 5, 20, 0},
	{"claude-opus-5", 5, 0.5, 6.25, 25, 0},
	{"claude-opus-4-5", 5, 0.5, 6.25, 25, 0},
	{"claude-opus-4-6", 5, 0.5, 6.25, 25, 0},
	{"claude-opus-4-7", 5, 0.5, 6.25, 25, 0},
	{"claude-opus-4-8", 5, 0.5, 6.25, 25, 0},
	{"claude-opus-4", 15, 1.5, 18.75, 75, 0},
	{"claude-sonnet-5-5", 2, 0.2, 2.5, 10, 0},
	{"claude-sonnet-5", 2, 0.2, 2.5, 10, 0},
	{"claude-sonnet-4", 3, 0.3, 3.75, 15, 0},
	{"claude-haiku-5-5", 0.5, 0.05, 0.625, 2.5, 0},
	{"claude-haiku-4-5", 1, 0.1, 1.25, 5, 0},

	{"gpt-6-astra", 10, 1, 12.5, 50, 272_000},
	{"gpt-6.1-sol", 2, 0.1, 2.5, 10, 272_000},
	{"gpt-6-sol", 2, 0.2, 2.5, 10, 272_000},
	{"gpt-6-luna", 0.1, 0.01, 0.125, 0.5, 272_000},
	{"gpt-5.6-sol", 5, 0.5, 0, 30, 272_000},
	{"gpt-5.6-terra", 2, 0.2, 0, 12, 272_000},
	{"gpt-5.6-luna", 0.2, 0.02, 0, 1.2, 272_000},
	{"gpt-5.5-pro", 30, 30, 0, 180, 272_000},
	{"gpt-5.5", 5, 0.5, 0, 30, 272_000},
	{"gpt-5.4-mini", 0.75, 0.075, 0, 4.5, 0},
	{"gpt-5.4-nano", 0.2, 0.02, 0, 1.25, 0},
	{"gpt-5.4-pro", 30, 30, 0, 180, 272_000},
	{"gpt-5.4", 2.5, 0.25, 0, 15, 272_000},
	{"gpt-5.3-codex", 1.75, 0.175, 0, 14, 0},
	{"gpt-5.2-pro", 21, 21, 0, 168, 0},
	{"gpt-5.2", 1.75, 0.175, 0, 14, 0},
	{"gpt-5.1", 1.25, 0.125, 0, 10, 0},
	{"gpt-5-pro", 15, 15, 0, 120, 0},
	{"gpt-5-mini", 0.25, 0.025, 0, 2, 0},
	{"gpt-5-nano", 0.05, 0.005, 0, 0.4, 0},
	{"gpt-5", 1.25, 0.125, 0, 10, 0},
	{"gpt-4.1", 2, 0.5, 0, 8, 0},

	{"gemini-3.1-pro", 2, 0.2, 0, 12, 200_000},
	{"gemini-3-flash", 0.5, 0.05, 0, 3, 0},
	{"gemini-2.5-pro", 1.25, 0.31, 0, 10, 200_000},
	{"gemini-2.5-flash-lite", 0.1, 0.025, 0, 0.4, 0},
	{"gemini-2.5-flash", 0.3, 0.075, 0, 2.5, 0},
}

// cost of a call in millionths of a dollar. A model whose price is not known costs nothing at an address of one's own; at the vendor's
// as much as the dearest, so that nobody gets around a budget by a name that is not in the list.
func (up *upstream) cost(in input, t Tokens) int64 {
	p := priceOf(in.model)
	if p.model == "" && up.vendors() {
		p = priceOf(up.dearest)
	}
	return int64(p.of(t) * max(in.factor, 1))
}

func (p price) of(t Tokens) float64 {
	in := float64(t.Input)*p.input + float64(t.Read)*p.read + float64(t.Written)*max(p.write, p.input) +
		// Anthropic: what is kept for an hour costs twice the input.
		float64(t.Hour)*2*p.input
	out := float64(t.Output) * p.output
	if p.long > 0 && t.input() > p.long {
		in, out = 2*in, 1.5*out
	}
	return in + out
}

// priceOf finds a price by the longest prefix that ends where a word of the name does: gpt-5-2026-01-01 is gpt-5, and gpt-50 is not.
func priceOf(model string) price {
	var best price
	for _, p := range prices {
		rest, ok := strings.CutPrefix(model, p.model)
		if ok && len(p.model) > len(best.model) && (rest == "" || strings.ContainsRune("-@:", rune(rest[0]))) {
			best = p
		}
	}
	return best
}
