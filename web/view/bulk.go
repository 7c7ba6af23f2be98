package view

import "strings"

// Bulk asks whether many rules should be changed.
type Bulk struct {
	// Act is what is done, Ask and Done say it before and after.
	Act, Ask, Done string
	// Total rules are selected by Query, of which Change would change; Most is how
	// many may be selected.
	Total, Change, Most int64
	Query               Query
	// Sample are a few of those that would change.
	Sample []RuleLine
	// Seen carries their versions, Back leads to the list.
	Seen, Back string
}

// filterWords says which rules the filters of the list select.
func filterWords(q Query) string {
	var out []string
	if text := q.Get("q"); text != "" {
		out = append(out, "with “"+text+"” in name, description or route")
	}
	switch q.Get("state") {
	case "on":
		out = append(out, "that are on")
	case "off":
		out = append(out, "that are off")
	}
	if mode := q.Get("mode"); mode != "" {
		out = append(out, "in mode "+mode)
	}
	if mode := q.Get("fail_mode"); mode != "" {
		out = append(out, "that fail "+mode)
	}
	if len(out) == 0 {
		return "there are"
	}
	return strings.Join(out, ", ")
}
