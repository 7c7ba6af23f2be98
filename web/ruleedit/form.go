package ruleedit

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/bind"
	"sluice/web/view"
)

// activeZone is the field for the time zone of active_from and active_until.
const activeZone = "active_from.zone"

// ruleReader reads the form of a rule.
type ruleReader struct{ bind.Reader }

// ruleOf reads the form of a rule, normalized. The errors are about values that cannot be parsed.
func ruleOf(form url.Values) (rules.Rule, []field.Problem) {
	rd := &ruleReader{bind.Reader{Form: ofKind(form), Zone: activeZone}}
	r := rules.Rule{Unlimited: rd.Ticked("unlimited")} // which waives the limit
	bind.Read(&rd.Reader, "", rules.Fields(), &r)
	rd.descriptor(&r)
	r.Tiers, r.Schedule, r.Calendar = rd.tiers(), rd.schedule(), rd.calendar()
	r.Defer, r.Candidate, r.Ban, r.Denial = rd.deferral(r.OverLimit), rd.candidate(), rd.ban(), rd.denial()
	r.Delay, r.Warn = rd.delay(), rd.warn()
	if r.Calendar == nil && rd.Text("window_ms") == "" && (!r.Unlimited || r.IsMeter()) {
		rd.Wrong("window_ms", "is required")
	}
	r.Normalize()
	return r, rd.Errs
}

func (rd *ruleReader) tiers() map[string]rules.TierLimit {
	out := map[string]rules.TierLimit{}
	for i := range rowCount(rd.Form, "tiers", rules.MaxTiers) {
		at := element("tiers", i)
		name := rd.Text(at + ".name")
		if _, twice := out[name]; twice {
			rd.Wrong(at+".name", "is a duplicate")
		}
		var t rules.TierLimit
		bind.Read(&rd.Reader, at+".", rules.TierFields(), &t)
		out[name] = t
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (rd *ruleReader) schedule() *rules.Schedule {
	const list = "schedule.windows"
	n := rowCount(rd.Form, list, rules.MaxScheduleWindows)
	if n == 0 {
		if rd.Text("schedule.zone") != "" {
			rd.Wrong("schedule.zone", "applies only to a schedule; add a row, or leave this field empty")
		}
		return nil
	}
	s := &rules.Schedule{Zone: rd.Text("schedule.zone"), Windows: make([]rules.ScheduleWindow, n)}
	for i := range s.Windows {
		bind.Read(&rd.Reader, element(list, i)+".", rules.WindowFields(), &s.Windows[i])
	}
	return s
}

func (rd *ruleReader) calendar() *rules.Calendar {
	every := rd.Text("calendar.every")
	if every == "" {
		for _, name := range []string{"zone", "anchor_day", "anchor_month", "at"} {
			if rd.Text("calendar."+name) != "" {
				rd.Wrong("calendar.every", "is required if another field of the calendar is set")
				break
			}
		}
		return nil
	}
	return &rules.Calendar{Every: every, Zone: rd.Text("calendar.zone"), At: rd.Text("calendar.at"),
		AnchorDay: rd.anchor("calendar.anchor_day"), AnchorMonth: rd.anchor("calendar.anchor_month")}
}

// anchor reads the anchor of a calendar; 0 if it is empty.
func (rd *ruleReader) anchor(name string) int64 {
	n := rd.Whole(name)
	if n != nil && *n == 0 {
		rd.Wrong(name, "must be 1 or greater")
	}
	return field.ValueOf(n)
}

// deferral reads the bounds of the queue.
func (rd *ruleReader) deferral(overLimit string) *rules.Defer {
	items, age := rd.Whole("defer.max_items"), rd.Millis("defer.max_age_ms")
	if items == nil && age == nil {
		return nil
	}
	d := &rules.Defer{}
	for _, f := range []struct {
		name string
		from *int64
		into *int64
	}{{"defer.max_items", items, &d.MaxItems}, {"defer.max_age_ms", age, &d.MaxAgeMS}} {
		switch {
		case f.from == nil:
			continue
		case overLimit != rules.OverLimitDefer:
			rd.Wrong(f.name, "applies only to a queue; choose Queue for excess requests, or leave this field empty")
			continue
		}
		if *f.into = *f.from; *f.from == 0 {
			rd.Wrong(f.name, "must be greater than 0")
		}
	}
	if overLimit != rules.OverLimitDefer {
		return nil
	}
	return d
}

func (rd *ruleReader) candidate() *rules.Candidate {
	var c rules.Candidate
	bind.Read(&rd.Reader, "candidate.", rules.CandidateFields(), &c)
	if c == (rules.Candidate{}) {
		return nil
	}
	return &c
}

// ban reads the ban, nil if all of its fields are empty.
func (rd *ruleReader) ban() *rules.Ban {
	fields, given := rules.BanFields(), false
	for i := range fields {
		given = given || rd.Text("ban."+fields[i].Name) != ""
	}
	if !given {
		return nil
	}
	var b rules.Ban
	bind.Read(&rd.Reader, "ban.", fields, &b)
	for i := range fields {
		if n, _ := fields[i].At(&b).(*int64); *n == 0 && rd.Text("ban."+fields[i].Name) != "" {
			rd.Wrong("ban."+fields[i].Name, "must be greater than 0")
		}
	}
	return &b
}

func (rd *ruleReader) denial() *rules.Denial {
	var d rules.Denial
	bind.Read(&rd.Reader, "denial.", rules.DenialFields(), &d)
	if d == (rules.Denial{}) {
		return nil
	}
	return &d
}

func (rd *ruleReader) delay() *rules.Delay {
	if rd.Text("delay.after")+rd.Text("delay.step_ms")+rd.Text("delay.most_ms") == "" {
		return nil
	}
	var d rules.Delay
	bind.Read(&rd.Reader, "delay.", rules.DelayFields(), &d)
	return &d
}

func (rd *ruleReader) warn() *rules.Warn {
	if rd.Text("warn.percent")+rd.Text("warn.set") == "" {
		return nil
	}
	var w rules.Warn
	bind.Read(&rd.Reader, "warn.", rules.WarnFields(), &w)
	w.Set = rd.pairs("warn.set")
	return &w
}

// element is the name of an element of a list in the form.
func element(list string, i int) string { return list + "[" + view.Digits(i) + "]" }

// rowFields are the fields of the rows of each list in the form.
var rowFields = map[string][]string{
	"tiers":            append([]string{"name"}, namesOf(rules.TierFields())...),
	"schedule.windows": namesOf(rules.WindowFields()),
}

func namesOf[T any](fields []field.Field[T]) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

// rowCount is how many rows of a list come before the first empty one.
func rowCount(form url.Values, list string, most int) int {
	for i := range most {
		if emptyRow(form, list, i) {
			return i
		}
	}
	return most
}

func emptyRow(form url.Values, list string, i int) bool {
	return !slices.ContainsFunc(rowFields[list], func(f string) bool {
		return strings.TrimSpace(strings.Join(form[element(list, i)+"."+f], "")) != ""
	})
}

// compact copies the form without the empty rows of its lists, so that row numbers are those of the list elements.
func compact(form url.Values) url.Values {
	out := url.Values{}
	for name, values := range form {
		out[name] = values
	}
	for list, most := range map[string]int{"tiers": rules.MaxTiers, "schedule.windows": rules.MaxScheduleWindows} {
		to := 0
		for from := range most + 1 {
			if emptyRow(form, list, from) {
				continue
			}
			for _, f := range rowFields[list] {
				out[element(list, to)+"."+f] = form[element(list, from)+"."+f]
			}
			to++
		}
		for ; to <= most; to++ {
			for _, f := range rowFields[list] {
				delete(out, element(list, to)+"."+f)
			}
		}
	}
	return out
}

// toFormNames renames the fields of validation errors to those of the form, in which tiers are rows. It keeps the first
// error of each field.
func toFormNames(form url.Values, errs []field.Problem) []field.Problem {
	var out []field.Problem
	for _, e := range errs {
		e = toDescriptorField(e)
		if field.TopField(e.Field) == "notify_percent" {
			e.Field = "notify_percent"
		}
		for i := range rowCount(form, "tiers", rules.MaxTiers) {
			name, at := strings.TrimSpace(form.Get(element("tiers", i)+".name")), element("tiers", i)
			for _, path := range []string{"tiers." + name, fmt.Sprintf("tiers.%.40q", name)} {
				if e.Field == path {
					e.Field = at + ".name"
				} else if rest, ok := strings.CutPrefix(e.Field, path+"."); ok && slices.Contains(rowFields["tiers"], rest) {
					e.Field = at + "." + rest
				}
			}
		}
		if strings.HasPrefix(e.Field, "schedule.windows[") && strings.HasSuffix(e.Field, "]") {
			e.Field += ".percent"
		}
		if !slices.ContainsFunc(out, func(o field.Problem) bool { return o.Field == e.Field }) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b field.Problem) int { return cmp.Compare(orderOf(a.Field), orderOf(b.Field)) })
	return out
}
