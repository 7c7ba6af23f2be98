package view

import (
	"strconv"
	"strings"

	"sluice/rules"
)

// Transfer is the page of export and import.
type Transfer struct {
	// Text, Prune and Errors are of a file that is not valid.
	Text   string
	Prune  bool
	Errors []rules.FieldError
}

// ImportPlan shows what a file would do. Sum stands for the plan and Version, the
// version of the rules on which it was made. The page carries Text along, or names
// the Upload that waits on the node.
type ImportPlan struct {
	Plan              *rules.Plan
	Text, Upload, Sum string
	Prune             bool
	Version           int64
	Note              string
	// Reason is why, as it was typed.
	Reason string
}

// PlanWords sums a plan up: "2 to create, 1 to delete".
func PlanWords(p *rules.Plan) string {
	var out []string
	for _, part := range []struct {
		n    int
		what string
	}{
		{len(p.Create) + len(p.Pools.Create), "created"}, {len(p.Update) + len(p.Pools.Update), "changed"}, {len(p.Delete) + len(p.Pools.Delete), "deleted"},
	} {
		if part.n > 0 {
			out = append(out, strconv.Itoa(part.n)+" "+part.what)
		}
	}
	if len(out) == 0 {
		return "nothing to do"
	}
	return strings.Join(out, ", ")
}

// shownRules is how much of each part of a plan is listed.
const shownRules = 200

// deletions and others count what a plan does.
func deletions(p *rules.Plan) int { return len(p.Delete) + len(p.Pools.Delete) }
func others(p *rules.Plan) int {
	return len(p.Create) + len(p.Pools.Create) + len(p.Update) + len(p.Pools.Update)
}

// deletionWords says what a plan deletes.
func deletionWords(p *rules.Plan) string {
	var out []string
	if n := len(p.Delete); n > 0 {
		out = append(out, Plural(int64(n), "rule"))
	}
	if n := len(p.Pools.Delete); n > 0 {
		out = append(out, Plural(int64(n), "pool"))
	}
	return strings.Join(out, " and ")
}

// stayWords says which rules stay as they are.
func stayWords(p *rules.Plan) string {
	if p.Untouched == 0 {
		return ""
	}
	return Count(int64(p.Untouched)) + " not in the file"
}
