package incident

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/rules/chars"
)

// State says whether an incident lasts, and why not: running, ended, stopped or lost.
func (i *Incident) State() string {
	switch {
	case i.Lost:
		return "lost"
	case i.Running():
		return "running"
	case i.Stopped:
		return "stopped"
	}
	return "ended"
}

// Header is the first line of incidents as CSV.
var Header = []string{"id", "kind", "key", "state", "begin", "end", "updated", "node", "node_id", "nodes", "server",
	"cause", "opened", "merged", "rule", "open", "local", "closed", "denied"}

// Records returns the lines of an incident as CSV: for all requests, without a rule, and for each of some rules.
func (i *Incident) Records(rules []Rule) [][]string {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	same := []string{i.ID, i.Kind, i.Key, i.State(), moment(i.Begin), moment(i.End), moment(i.Updated), i.Node, i.NodeID,
		strings.Join(i.Nodes, listed), i.Server, i.Cause, number(i.Opened), number(i.Merged)}
	var out [][]string
	for _, r := range append([]Rule{i.Total}, rules...) {
		line := slices.Concat(same, []string{r.Rule, number(r.Open), number(r.Local), number(r.Closed), number(r.Denied)})
		for n := range line {
			line[n] = chars.Cell(line[n])
		}
		out = append(out, line)
	}
	return out
}
