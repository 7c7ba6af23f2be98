package inspect

import (
	"slices"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/view"
)

// alike is what the requests of a fold have in common.
type alike struct {
	rule, mode, key, request, outcome, degraded, shed string
	status                                            int
	banned, overloaded                                bool
}

func alikeOf(d *history.Request) alike {
	return alike{d.Rule, d.Mode, d.Key, view.RequestWords(d), d.Outcome(), d.Degraded, d.Shed, d.Status, d.Banned,
		d.Overloaded}
}

// folds puts requests with the same rule, key and answer together, each fold at the place of its newest request.
// With inOrder, only requests next to each other are folded, so that the list stays in the order of time.
func folds(lines []history.Request, inOrder bool) [][]*history.Request {
	var out [][]*history.Request
	at := map[alike]int{}
	for i := range lines {
		d := &lines[i]
		n, known := at[alikeOf(d)]
		if known && (!inOrder || n == len(out)-1) {
			out[n] = append(out[n], d)
			continue
		}
		at[alikeOf(d)] = len(out)
		out = append(out, []*history.Request{d})
	}
	return out
}

// foldOf is what sampleRow gets for a line of a fold.
func foldOf(fold []*history.Request, i int) int {
	if i > 0 {
		return 0
	}
	return len(fold)
}

// answerWords are what an answer says besides its status.
func answerWords(d *history.Request) string {
	switch {
	case d.Allowed && d.Rule != "" && d.Degraded != rules.FailOpen:
		return view.Count(d.Remaining) + " left"
	case d.Outcome() == history.Denied:
		return "retry " + waitWords(d.RetryAfter)
	}
	return ""
}

// answerTitle says why a request was not decided by its limit, or else what answerWords say.
func answerTitle(d *history.Request) string {
	switch {
	case d.Shed != "":
		return "The pool " + d.Shed + " had no room."
	case d.Overloaded:
		return overloadedWords
	}
	return answerWords(d)
}

// requestTitle is a request with who sent it.
func requestTitle(d *history.Request) string {
	parts := []string{view.RequestWords(d), fromWords(d)}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 2 {
		return parts[0] + ", " + parts[1]
	}
	return view.RequestWords(d)
}

// limitTitle is the limit of a request with its weight.
func limitTitle(d *history.Request) string {
	if d.Rule == "" {
		return ""
	}
	text := view.Count(d.Limit)
	if d.Weight != 1 {
		text += ", weight " + view.Count(d.Weight)
	}
	return text
}
