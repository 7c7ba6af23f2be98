package rules

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/rules/quantity"
)

// Plan lists the changes that turn the stored rules into the wanted ones. Each list is ordered by
// name.
type Plan struct {
	// Create holds rules to create; their ID is 0.
	Create []Rule `json:"create"`
	// Update holds rules to update.
	Update []Edit `json:"update"`
	// Delete holds stored rules that are no longer wanted.
	Delete []Rule `json:"delete"`
	// Unchanged holds stored rules that are already as wanted.
	Unchanged []Rule `json:"unchanged"`
	// Untouched is the number of stored rules that the file does not name and that stay.
	Untouched int `json:"untouched"`
	// Pools are changed in an order in which every rule finds its pool.
	Pools    PoolPlan    `json:"pools"`
	Profiles ProfilePlan `json:"profiles"`
	// FailModes are the fail modes of rules to create that omit it, if the server has FailDefaults.
	FailModes []FailModeFrom `json:"fail_modes,omitempty"`
	// OpenWrites are the names of the rules to create or to update of which FailDefaults.OpenWrites warns.
	OpenWrites []string `json:"open_writes,omitempty"`
	// Renamed are the rules to create that equal a rule to delete except for the name. Their counters start empty,
	// because keys contain the id of the rule.
	Renamed []RenamedRule `json:"renamed,omitempty"`
}

// RenamedRule is a rule that a plan deletes under one name and creates under another.
type RenamedRule struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// findRenamed fills in Renamed. Each rule to delete counts once.
func (p *Plan) findRenamed() {
	contents := make(map[[sha256.Size]byte]string, len(p.Delete)) // the name by the rest
	content := func(r *Rule) [sha256.Size]byte {
		c := *r
		c.ID, c.Name, c.Version, c.CreatedAt, c.UpdatedAt = 0, "", 0, time.Time{}, time.Time{}
		return sha256.Sum256([]byte(field.JSONText(&c)))
	}
	for i := range p.Delete {
		contents[content(&p.Delete[i])] = p.Delete[i].Name
	}
	for i := range p.Create {
		if len(contents) == 0 {
			return
		}
		key := content(&p.Create[i])
		if from, ok := contents[key]; ok {
			p.Renamed = append(p.Renamed, RenamedRule{From: from, To: p.Create[i].Name})
			delete(contents, key)
		}
	}
}

// FailModeFrom says which fail mode a new rule has, and which entry of FailDefaults it is from.
type FailModeFrom struct {
	Rule     string `json:"rule"`
	FailMode string `json:"fail_mode"`
	From     string `json:"from"`
}

// Edit is one rule before and after. New has the identity and version of Old, so that applying the
// plan can refuse a rule that has changed since.
type Edit struct {
	Old     Rule           `json:"old"`
	New     Rule           `json:"new"`
	Changes []field.Change `json:"changes"`
	// Warnings are the result of EditWarnings.
	Warnings []field.Problem `json:"warnings,omitempty"`
}

// Empty reports whether the plan changes nothing.
func (p *Plan) Empty() bool {
	return len(p.Create)+len(p.Update)+len(p.Delete) == 0 && p.Pools.empty() && p.Profiles.empty()
}

// MakePlan compares stored rules with wanted ones by name. With prune, stored rules whose name is
// not wanted are deleted; otherwise they stay. A rename is therefore a deletion and a creation,
// with new counters. Both lists must be normalised and have unique names.
func MakePlan(current, wanted []Rule, prune bool) Plan {
	stored := make(map[string]*Rule, len(current))
	for i := range current {
		stored[current[i].Name] = &current[i]
	}
	p := Plan{Create: []Rule{}, Update: []Edit{}, Delete: []Rule{}, Unchanged: []Rule{}}
	p.Pools, p.Profiles = noPlan[Pool](), noPlan[profile.Profile]()
	for i := range wanted {
		w := wanted[i].Clone()
		c := stored[w.Name]
		delete(stored, w.Name)
		if c == nil {
			w.ID, w.Version = 0, 0
			p.Create = append(p.Create, w)
			continue
		}
		w.ID, w.Version, w.CreatedAt, w.UpdatedAt = c.ID, c.Version, c.CreatedAt, c.UpdatedAt
		w.KeepFailMode(c)
		if changes := Diff(c, &w); len(changes) > 0 {
			p.Update = append(p.Update, Edit{Old: *c, New: w, Changes: changes, Warnings: EditWarnings(c, &w)})
		} else {
			p.Unchanged = append(p.Unchanged, *c)
		}
	}
	for _, c := range stored {
		if prune {
			p.Delete = append(p.Delete, *c)
		} else {
			p.Untouched++
		}
	}
	p.sort()
	p.findRenamed()
	for i := range p.Create {
		if r := &p.Create[i]; r.failDefaulted() {
			p.FailModes = append(p.FailModes, FailModeFrom{Rule: r.Name, FailMode: r.FailMode, From: r.FailFrom})
		}
	}
	return p
}

func (p *Plan) sort() {
	byName := func(a, b Rule) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(p.Create, byName)
	slices.SortFunc(p.Delete, byName)
	slices.SortFunc(p.Unchanged, byName)
	slices.SortFunc(p.Update, func(a, b Edit) int { return byName(a.New, b.New) })
}

// String formats the plan for a terminal: one line per rule (+ create, ~ update, - delete), below
// it one line per changed field, and a summary.
func (p *Plan) String() string {
	var b strings.Builder
	writeSection(&b, PoolKind, &p.Pools, (*Pool).Summary)
	writeSection(&b, ProfileKind, &p.Profiles, (*profile.Profile).Summary)
	for i := range p.Create {
		fmt.Fprintf(&b, "+ %s: %s\n", p.Create[i].Name, p.Create[i].Summary())
	}
	for _, f := range p.FailModes {
		fmt.Fprintf(&b, "    %s: fail_mode %s (%s)\n", f.Rule, f.FailMode, f.From)
	}
	for i := range p.Update {
		fmt.Fprintf(&b, "~ %s\n", p.Update[i].New.Name)
		for _, c := range p.Update[i].Changes {
			fmt.Fprintf(&b, "    %s: %s -> %s\n", c.Field, field.JSONText(c.Old), field.JSONText(c.New))
		}
		for _, w := range p.Update[i].Warnings {
			fmt.Fprintf(&b, "    warning: %s: %s\n", w.Field, w.Message)
		}
	}
	for i := range p.Delete {
		fmt.Fprintf(&b, "- %s\n", p.Delete[i].Name)
	}
	if len(p.OpenWrites) > 0 {
		fmt.Fprintf(&b, "    warning: %s\n", p.OpenWritesWords())
	}
	for _, r := range p.Renamed {
		fmt.Fprintf(&b, "    warning: %s is %s under another name, and its counters begin anew: rename the stored rule "+
			"first to keep them\n", r.To, r.From)
	}
	fmt.Fprintf(&b, "%d to create, %d to update, %d to delete, %d unchanged\n",
		len(p.Create)+len(p.Pools.Create)+len(p.Profiles.Create), len(p.Update)+len(p.Pools.Update)+len(p.Profiles.Update),
		len(p.Delete)+len(p.Pools.Delete)+len(p.Profiles.Delete), len(p.Unchanged)+p.Untouched)
	return b.String()
}

// Summary describes the limit of a rule in one line, such as "100 per minute (gcra) by user on
// POST /v1/charges", or "5 per second (fixed_window) for shop: path=/pay, user".
func (r *Rule) Summary() string {
	var b strings.Builder
	switch {
	case r.IsMeter():
		fmt.Fprintf(&b, "unlimited, counted per %s, by %s", r.PeriodWords(), r.Scope)
	case r.Descriptor == nil:
		fmt.Fprintf(&b, "%s per %s (%s) by %s", quantity.Amount(r.Limit), r.PeriodWords(), r.Algorithm, r.Scope)
	case r.Unlimited:
		fmt.Fprintf(&b, "unlimited for %s", r.Descriptor)
	default:
		fmt.Fprintf(&b, "%s per %s (%s) for %s", quantity.Amount(r.Limit), r.PeriodWords(), r.Algorithm, r.Descriptor)
	}
	if r.Method != nil || r.Route != nil {
		b.WriteString(" on")
	}
	if r.Method != nil {
		b.WriteString(" " + *r.Method)
	}
	if r.Route != nil {
		b.WriteString(" " + *r.Route)
	}
	if r.Host != nil {
		b.WriteString(" at " + *r.Host)
	}
	var marks []string
	if r.Quota {
		marks = append(marks, "quota")
	}
	if r.Mode == ModeShadow {
		marks = append(marks, "shadow")
	}
	if !r.IsActive {
		marks = append(marks, "inactive")
	}
	switch text := strings.Join(marks, ", "); {
	case text == "":
	case r.Descriptor != nil: // whose last key may be a word of these
		b.WriteString(" (" + text + ")")
	default:
		b.WriteString(", " + text)
	}
	return b.String()
}
