package rules

import (
	"fmt"
	"time"
)

// nested reads the members of one composite field of a rule and collects what
// is wrong with them, each under its path such as tiers.free.limit.
type nested struct {
	ps    problems
	lines map[string]int // of the problems, by path
}

func (n *nested) wrong(at string, it *item, format string, args ...any) {
	n.ps.add(at, format, args...)
	n.lines[at] = it.line
}

// composites set one composite field each.
var composites = map[string]func(n *nested, r *Rule, it *item){
	"tiers":     (*nested).tiers,
	"schedule":  (*nested).schedule,
	"calendar":  (*nested).calendar,
	"defer":     (*nested).deferral,
	"candidate": (*nested).candidate,
}

// IsComposite reports whether a field of a rule is an object: tiers, schedule,
// calendar, defer or candidate.
func IsComposite(field string) bool { return composites[field] != nil }

// SetComposite sets a composite field from its JSON text, null for none, as
// strictly as a rules file is read. It gives every problem of form; what the
// values mean is for Validate.
func SetComposite(r *Rule, field string, text []byte) []FieldError {
	it, err := readJSONValue(text)
	if err != nil {
		return []FieldError{{field, "cannot be read as JSON"}}
	}
	return setComposite(r, field, &it).ps
}

func setComposite(r *Rule, field string, it *item) *nested {
	n := &nested{lines: map[string]int{}}
	composites[field](n, r, it)
	return n
}

// object reads an object, one setter a member; false if it is not one.
func (n *nested) object(at string, it *item, set map[string]func(at string, v *item)) bool {
	if it.kind != itemObject {
		n.wrong(at, it, "must be an object, not %s", itemNames[it.kind])
		return false
	}
	for i := range it.members {
		m := &it.members[i]
		where := at + "." + safeField(m.name)
		if f := set[m.name]; f != nil {
			f(where, &m.value)
		} else {
			n.wrong(where, &m.value, "is not known here")
		}
	}
	return true
}

func into[T any](n *nested, dst *T, read func(*item, *T) error) func(string, *item) {
	return func(at string, v *item) {
		if err := read(v, dst); err != nil {
			n.wrong(at, v, "%s", err)
		}
	}
}

func (n *nested) text(dst *string) func(string, *item) { return into(n, dst, (*item).intoText) }
func (n *nested) truth(dst *bool) func(string, *item)  { return into(n, dst, (*item).intoTruth) }

// orNull leaves *dst nil for null.
func orNull[T any](n *nested, dst **T, read func(*item, *T) error) func(string, *item) {
	return into(n, dst, func(it *item, dst **T) error {
		*dst = nil
		return optional(it, dst, func(v *T) error { return read(it, v) })
	})
}

func (n *nested) tiers(r *Rule, it *item) {
	r.Tiers = nil
	switch {
	case it.kind == itemNull:
		return
	case it.kind != itemObject:
		n.wrong("tiers", it, "must be an object of tiers, not %s", itemNames[it.kind])
		return
	}
	r.Tiers = make(map[string]TierLimit, len(it.members))
	for i := range it.members {
		m := &it.members[i]
		var t TierLimit
		n.object("tiers."+safeField(m.name), &m.value, map[string]func(string, *item){
			"limit":     orNull(n, &t.Limit, (*item).intoWhole),
			"burst":     orNull(n, &t.Burst, (*item).intoWhole),
			"unlimited": n.truth(&t.Unlimited),
		})
		r.Tiers[m.name] = t
	}
}

func (n *nested) schedule(r *Rule, it *item) {
	r.Schedule = nil
	if it.kind == itemNull {
		return
	}
	s := &Schedule{}
	if n.object("schedule", it, map[string]func(string, *item){
		"zone":    n.text(&s.Zone),
		"windows": func(at string, v *item) { s.Windows = n.windows(at, v) },
	}) {
		r.Schedule = s
	}
}

func (n *nested) windows(at string, it *item) []ScheduleWindow {
	if it.kind != itemList {
		n.wrong(at, it, "must be a list of windows, not %s", itemNames[it.kind])
		return nil
	}
	if len(it.list) > MaxScheduleWindows {
		n.wrong(at, it, "must be a list of 1 to %d windows", MaxScheduleWindows)
		return nil
	}
	ws := make([]ScheduleWindow, len(it.list))
	for i := range it.list {
		w := &ws[i]
		n.object(path(at, i), &it.list[i], map[string]func(string, *item){
			"days":    func(at string, v *item) { w.Days = n.days(at, v) },
			"from":    n.text(&w.From),
			"to":      n.text(&w.To),
			"percent": orNull(n, &w.Percent, (*item).intoWhole),
			"limit":   orNull(n, &w.Limit, (*item).intoWhole),
			"burst":   orNull(n, &w.Burst, (*item).intoWhole),
		})
	}
	return ws
}

func (n *nested) days(at string, it *item) []string {
	switch {
	case it.kind == itemNull:
		return nil
	case it.kind != itemList || len(it.list) > len(weekdays) || len(it.list) == 0:
		n.wrong(at, it, "must be a list of days of the week, such as [sat, sun]")
		return nil
	}
	days := make([]string, len(it.list))
	for i := range it.list {
		n.text(&days[i])(path(at, i), &it.list[i])
	}
	return days
}

func (n *nested) calendar(r *Rule, it *item) {
	r.Calendar = nil
	if it.kind == itemNull {
		return
	}
	c := &Calendar{}
	var anchor *int64
	if n.object("calendar", it, map[string]func(string, *item){
		"every":      n.text(&c.Every),
		"zone":       n.text(&c.Zone),
		"anchor_day": orNull(n, &anchor, (*item).intoWhole),
	}) {
		c.AnchorDay = given(anchor)
		r.Calendar = c
	}
}

func (n *nested) deferral(r *Rule, it *item) {
	r.Defer = nil
	if it.kind == itemNull {
		return
	}
	d := &Defer{}
	var items, age *int64
	if n.object("defer", it, map[string]func(string, *item){
		"max_items":  orNull(n, &items, (*item).intoWhole),
		"max_age_ms": orNull(n, &age, (*item).intoWhole),
	}) {
		d.MaxItems, d.MaxAgeMS = given(items), given(age)
		r.Defer = d
	}
}

// given is a number as it was given: 0, which is how an absent one is kept,
// becomes -1, which is out of every range that begins at 1.
func given(v *int64) int64 {
	if v != nil && *v == 0 {
		return -1
	}
	return valueOf(v)
}

func (n *nested) candidate(r *Rule, it *item) {
	r.Candidate = nil
	if it.kind == itemNull {
		return
	}
	c := &Candidate{}
	if n.object("candidate", it, map[string]func(string, *item){
		"algorithm": func(at string, v *item) {
			if v.kind != itemNull {
				n.text(&c.Algorithm)(at, v)
			}
		},
		"limit":     orNull(n, &c.Limit, (*item).intoWhole),
		"window_ms": orNull(n, &c.WindowMS, (*item).intoWhole),
		"burst":     orNull(n, &c.Burst, (*item).intoWhole),
		"align":     orNull(n, &c.Align, (*item).intoText),
		"anchor_ms": orNull(n, &c.AnchorMS, (*item).intoWhole),
		"buckets":   orNull(n, &c.Buckets, (*item).intoWhole),
	}) {
		r.Candidate = c
	}
}

// intoInstant reads a time of RFC 3339.
func (it *item) intoInstant(dst *time.Time) error {
	if it.kind != itemText {
		return fmt.Errorf("must be a time such as 2026-11-27T00:00:00Z in quotes, not %s", itemNames[it.kind])
	}
	t, err := ParseInstant(it.text)
	if err == nil {
		*dst = t
	}
	return err
}

// ParseInstant reads a time of RFC 3339. The error says what is wanted.
func ParseInstant(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a time with date and offset as in RFC 3339, such as 2026-11-27T00:00:00Z")
	}
	return t.UTC(), nil
}
