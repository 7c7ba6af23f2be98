package attention

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/quantity"
)

const (
	// EditsOf is how long after an edit a rise is attributed to it.
	EditsOf = 24 * time.Hour
	// compared is the time before an edit, and that after it, in which requests are compared.
	compared = 10 * time.Minute
	// settles is how long after an edit all nodes decide by it.
	settles = 2 * time.Second
	// enoughRequests are the fewest requests of a time that say which share of them is denied.
	enoughRequests = 20
	// enoughRise are the fewest denials, and the smallest share of denials in percent, that are a rise.
	enoughRise, leastPercent = 10, 2
	// riseTimes is how many times the share of denials before the edit is a rise.
	riseTimes = 2
)

// RiseWhen says when there is a Rise.
var RiseWhen = fmt.Sprintf("in the last day, an edit changed what the limit decides; the share of denied requests is "+
	"at least %d times that of the last minutes before the edit and at least %d %%, in the first minutes after it and in "+
	"the last minute, each of at least %d requests", riseTimes, leastPercent, enoughRequests)

// Counts counts the decisions of the limit of a rule, without decisions of fail modes. The zero value means unknown.
type Counts struct {
	Requests, Denied int64
}

// CountsOf returns the counts of the decisions of a rule, without the decisions of fail modes.
func CountsOf(f history.Figures) Counts {
	return Counts{max(0, f.Total()-f.Degraded), max(0, f.Denied-f.DegradedDenied)}
}

func (c *Counts) add(f history.Figures) {
	of := CountsOf(f)
	c.Requests += of.Requests
	c.Denied += of.Denied
}

// Edit is an edit of a rule that can change what its limit decides.
type Edit struct {
	Version int64
	At      time.Time
	// Who made it, and Why if they said so.
	Who, Why string
	// Changes are those fields that can change decisions.
	Changes []field.Change
}

// mostNamed is how many changed fields What names, and mostValue the longest value in it, in characters.
const mostNamed, mostValue = 3, 40

// What says what changed, as in "limit 60 to 3, route none to /v1/search".
func (e *Edit) What() string {
	var parts []string
	for i, c := range e.Changes {
		if i == mostNamed {
			parts = append(parts, strconv.Itoa(len(e.Changes)-i)+" more")
			break
		}
		parts = append(parts, strings.ReplaceAll(c.Field, "_", " ")+" "+valueWords(c.Old)+" to "+valueWords(c.New))
	}
	return strings.Join(parts, ", ")
}

// valueWords is a JSON value for people.
func valueWords(v any) string {
	text := field.JSONText(v)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return quantity.Amount(n)
	}
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		text = v
	}
	if all := []rune(text); len(all) > mostValue {
		return string(all[:mostValue]) + "…"
	}
	return text
}

// EditsIn are the edits of revisions, in the order of the revisions. The creation of a rule is none.
func EditsIn(past []rules.Revision) (out []Edit) {
	for i := range past {
		r := &past[i]
		changes := rules.Decisive(r.Changes)
		if r.Version < 2 || changes == nil {
			continue
		}
		out = append(out, Edit{Version: r.Version, At: r.At, Who: r.Actor.Name, Why: r.Reason, Changes: changes})
	}
	return out
}

// Edited is an edit with the decisions of the rule before and after it.
type Edited struct {
	Edit
	// Before are the last minutes before the edit, Soon the first ones after it, Now the last minute, as far as it is
	// after the edit.
	Before, Soon, Now Counts
	// Young means that the edit is younger than the last minute, so that Now is what was decided since.
	Young bool
}

// Rise says that a rule denies a larger share of its requests since an edit.
type Rise struct {
	Edit
	Before, Now Counts
	Young       bool
}

// Times returns the ratio of the present share of denials to the share before the edit; 0 if there were no denials
// before.
func (r *Rise) Times() int64 {
	if r.Before.Denied == 0 {
		return 0
	}
	return (r.Now.Denied*r.Before.Requests + r.Now.Requests*r.Before.Denied/2) / (r.Now.Requests * r.Before.Denied)
}

// When is the time of Now, behind "denied".
func (r *Rise) When() string {
	if r.Young {
		return "since the last edit"
	}
	return "in the last minute"
}

// RiseOf returns the newest edit since which the rule denies more, nil if there is none. edits are newest first. The
// share of denials must be higher both soon after the edit and now: a rise an hour later has another cause. Only
// requests after the newest edit count as now, so that a rollback ends the rise at once.
func RiseOf(edits []Edited) *Rise {
	for i := range edits {
		e, last := &edits[i], &edits[0]
		if e.Before.Requests >= enoughRequests && last.Now.Denied >= enoughRise &&
			rose(e.Before, e.Soon) && rose(e.Before, last.Now) {
			return &Rise{e.Edit, e.Before, last.Now, last.Young}
		}
	}
	return nil
}

func rose(before, after Counts) bool {
	return after.Requests >= enoughRequests && after.Denied*100 >= leastPercent*after.Requests &&
		after.Denied*before.Requests >= riseTimes*before.Denied*after.Requests
}

// IsYoung reports whether an edit has not been in force for the whole last minute.
func (e *Edit) IsYoung(now time.Time) bool { return e.At.Add(settles).After(now.Add(-time.Minute)) }

// AroundOf is the time that Around needs points of, and their step: seconds for an edit of the last minutes.
func AroundOf(e *Edit, now time.Time) (from, to time.Time, step time.Duration) {
	from, to, step = e.At.Add(-compared), e.At.Add(settles+compared), time.Minute
	if now.Sub(e.At) < recently {
		step = time.Second
	}
	if kept := now.Add(-history.SecondsKept); step == time.Second && from.Before(kept) {
		from = kept
	}
	if to.After(now) {
		to = now
	}
	return from, to, step
}

// Around adds up the points of a step before and after an edit. earlier and later are the times of the edits next to
// it, zero for none: what they decided is not counted. Points that contain the edit count as neither.
func Around(e *Edit, earlier, later time.Time, points []history.Point, step time.Duration) (before, soon Counts) {
	from, until := e.At.Add(-compared), e.At.Add(settles+compared)
	if !later.IsZero() && later.Before(until) {
		until = later
	}
	if earlier.Add(settles).After(from) {
		from = earlier.Add(settles)
	}
	for i := range points {
		switch at := points[i].At; {
		case !at.Before(from) && !at.Add(step).After(e.At):
			before.add(points[i].Figures)
		case !at.Before(e.At.Add(settles)) && !at.Add(step).After(until):
			soon.add(points[i].Figures)
		}
	}
	return before, soon
}

// After adds up the points after an edit.
func After(e *Edit, points []history.Point) (out Counts) {
	for i := range points {
		if !points[i].At.Before(e.At.Add(settles)) {
			out.add(points[i].Figures)
		}
	}
	return out
}
