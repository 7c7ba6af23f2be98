package attention

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/rules"
	"sluice/rules/match"
)

const (
	// examined is the number of examined rules: the rules with the most denials in the last minute.
	examined = 10
	// pastRead is how many versions of a rule are read.
	pastRead = 20
	// shared is how long a report is shared by everyone who asks.
	shared = time.Second
	// retryAfter is how long after a failure neither the versions of rules nor figures around edits are read.
	retryAfter = 5 * time.Second
	// rereadAfter is how long figures around an edit are shared that may still change.
	rereadAfter = 10 * time.Second
	// tens is the step of history.RuleLive.Tens, and recently how old an edit is around which they are all known.
	tens, recently = 10 * time.Second, 8 * time.Minute
	// late is how long after their end the figures of minutes do not change any more, usually.
	late = 3 * time.Minute
)

// Fleet returns the figures of all nodes for the last minutes. With an error, the figures cover this node only, or are
// missing.
type Fleet interface {
	Live(ctx context.Context) history.Live
	DeniedKeys(ctx context.Context) ([]history.KeyDenials, error)
}

// Past has the versions of rules, newest first. Errors wrap rules.ErrUnavailable.
type Past interface {
	RuleHistory(ctx context.Context, id int64, limit int, before int64) ([]rules.Revision, error)
}

// Reader reads facts. It is safe for concurrent use, and the zero values of its unexported fields are ready to use. It
// reads versions only of rules that were changed in the last day and deny, and remembers them.
type Reader struct {
	Fleet     Fleet
	Stats     history.Source
	Past      Past
	Incidents incident.Source
	// Set returns the rules in force, nil if there are none yet.
	Set func() *match.Set
	Now func() time.Time

	mu       sync.Mutex
	report   Report
	reported time.Time

	editsMu sync.Mutex
	edits   map[int64]*ruleEdits
	failed  time.Time
}

// ruleEdits are the edits of a rule up to a version.
type ruleEdits struct {
	version int64
	edits   []Edit
	// around has, by version, what was decided around edits of which not all is known by ten seconds.
	around map[int64]around
}

// around is what was decided around an edit. fixed means that it does not change any more.
type around struct {
	before, soon Counts
	read         time.Time
	fixed        bool
}

// Report is what the console says about the last minute.
type Report struct {
	At       time.Time
	Findings []Finding
	// Keys are the keys that were denied in the last minute, the most denied first.
	Keys []Key
	// KeysErr is the error because of which Keys cover this node only or are missing, Err the same for other figures;
	// both are nil if the data is complete. EditsErr is the error because of which edits are unknown.
	KeysErr, Err, EditsErr error
}

// Key is a denied key, with its rule.
type Key struct {
	history.KeyDenials
	// RuleID is 0 if no rule in force has the name.
	RuleID int64
	// OfRule are the denials of the rule in the last minute.
	OfRule int64
}

// Report returns what is remarkable, at most a second old. Callers must not change it.
func (r *Reader) Report(ctx context.Context) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	if age := r.Now().Sub(r.reported); age >= 0 && age < shared && !r.reported.IsZero() {
		return r.report
	}
	r.report = r.read(context.WithoutCancel(ctx)) // it is for others too
	r.reported = r.Now()
	return r.report
}

func (r *Reader) read(ctx context.Context) Report {
	live := r.Fleet.Live(ctx)
	out := Report{At: live.At, Err: live.Err}
	keys, err := r.Fleet.DeniedKeys(ctx)
	out.KeysErr = err
	set := r.Set()
	if set == nil {
		return out
	}
	denied, byRule := map[string]int64{}, map[string][]history.KeyDenials{}
	for i := range live.Rules { // the most denied first
		if live.Rules[i].Minute.Denied == 0 {
			break
		}
		denied[live.Rules[i].Name] = live.Rules[i].Minute.Denied
	}
	for i := range keys {
		k := Key{KeyDenials: keys[i], OfRule: denied[keys[i].Rule]}
		if c := set.Named(k.Rule); c != nil {
			k.RuleID = c.Rule.ID
		}
		out.Keys = append(out.Keys, k)
		byRule[k.Rule] = append(byRule[k.Rule], keys[i])
	}
	var facts Facts
	for i := range live.Rules {
		l := &live.Rules[i]
		if len(facts.Rules) == examined || l.Minute.Denied == 0 {
			break
		}
		c := set.Named(l.Name)
		if c == nil {
			continue
		}
		f := RuleFacts{Rule: &c.Rule, Minute: l.Minute, Keys: byRule[l.Name]}
		if f.Edits, err = r.edited(ctx, &c.Rule, l); err != nil {
			out.EditsErr = err
		}
		facts.Rules = append(facts.Rules, f)
	}
	running, _ := r.Incidents.Running(ctx) // with an error, these are incidents of this node
	facts.Outage = outageOf(running, set, &live)
	out.Findings = Find(&facts)
	return out
}

// Rise returns the edit of a rule since which it denies more, nil if there is none. Errors wrap rules.ErrUnavailable.
func (r *Reader) Rise(ctx context.Context, rule *rules.Rule) (*Rise, error) {
	live := r.Fleet.Live(ctx)
	for i := range live.Rules {
		if l := &live.Rules[i]; l.Name == rule.Name && l.Minute.Denied > 0 {
			edits, err := r.edited(ctx, rule, l)
			return RiseOf(edits), err
		}
	}
	return nil, nil //nolint:nilnil // no rise is no error
}

// edited are the edits of a rule in the last day, newest first, with what was decided around them.
func (r *Reader) edited(ctx context.Context, rule *rules.Rule, l *history.RuleLive) ([]Edited, error) {
	now := r.Now()
	if rule.Version < 2 || now.Sub(rule.UpdatedAt) > EditsOf {
		return nil, nil
	}
	r.editsMu.Lock()
	defer r.editsMu.Unlock()
	known, err := r.known(ctx, rule, now)
	if err != nil {
		return nil, err
	}
	var out []Edited
	for i := range known.edits {
		e := Edited{Edit: known.edits[i]}
		age := now.Sub(e.At)
		if age > EditsOf {
			break
		}
		var earlier, later time.Time
		if i+1 < len(known.edits) {
			earlier = known.edits[i+1].At
		}
		if i > 0 {
			later = known.edits[i-1].At
		}
		was := known.around[e.Version]
		switch {
		case was.fixed || !was.read.IsZero() && now.Sub(was.read) < rereadAfter:
			e.Before, e.Soon = was.before, was.soon
		case age < recently:
			e.Before, e.Soon = Around(&e.Edit, earlier, later, l.Tens, tens)
		case now.Sub(r.failed) < retryAfter:
			return out, rules.ErrUnavailable
		default:
			from, to, step := AroundOf(&e.Edit, now)
			answer, err := r.Stats.Stats(ctx, history.Query{Rule: rule.Name, From: from, To: to, Step: step})
			if err == nil {
				err = answer.Partial
			}
			if err != nil {
				r.failed = r.Now() // the read may have taken long
				return out, err
			}
			e.Before, e.Soon = Around(&e.Edit, earlier, later, answer.Series[0].Points, step)
			known.around[e.Version] = around{e.Before, e.Soon, now, age > compared+late}
		}
		e.Now, e.Young = nowOf(&e.Edit, l, now), e.IsYoung(now)
		out = append(out, e)
	}
	return out, nil
}

// nowOf is what a rule decided in the last minute, as far as it is after an edit.
func nowOf(e *Edit, l *history.RuleLive, now time.Time) Counts {
	from := now.Add(-time.Minute - tens)
	if e.At.Add(settles).Before(from) {
		return CountsOf(l.Minute)
	}
	i := slices.IndexFunc(l.Tens, func(p history.Point) bool { return !p.At.Before(from) })
	return After(e, l.Tens[max(0, i):])
}

// mostKnown is the largest number of rules whose edits are remembered.
const mostKnown = 100

// known are the edits of a rule up to its version. The lock of edits is held.
func (r *Reader) known(ctx context.Context, rule *rules.Rule, now time.Time) (*ruleEdits, error) {
	if k := r.edits[rule.ID]; k != nil && k.version == rule.Version {
		return k, nil
	}
	if now.Sub(r.failed) < retryAfter {
		return nil, rules.ErrUnavailable
	}
	past, err := r.Past.RuleHistory(ctx, rule.ID, pastRead, rule.Version+1)
	if err != nil {
		if !errors.Is(err, rules.ErrNotFound) {
			r.failed = r.Now() // the read may have taken long
		}
		return nil, err
	}
	k := &ruleEdits{rule.Version, EditsIn(past), map[int64]around{}}
	if r.edits == nil || len(r.edits) >= mostKnown {
		r.edits = map[int64]*ruleEdits{}
	}
	r.edits[rule.ID] = k
	return k, nil
}
