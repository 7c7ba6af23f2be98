package rulepages

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sluice/rules"
	"sluice/web/kit"
)

// Fields of the form of a rule have the JSON names of the rule's fields, with the path of composite ones, such as
// schedule.windows[0].from. Durations have a unit in a second field, whose name ends in unitSuffix.
const unitSuffix = ".unit"

// activeZone is the field for the time zone of active_from and active_until.
const activeZone = "active_from.zone"

// ruleReader reads the form of a rule and collects values that cannot be parsed. rules.Validate checks their meaning.
type ruleReader struct {
	form url.Values
	// zone is the field for the time zone of the form's times.
	zone string
	errs []rules.FieldError
}

// ruleOf reads the form of a rule, normalized. The errors are about values that cannot be parsed.
func ruleOf(form url.Values) (rules.Rule, []rules.FieldError) {
	rd := &ruleReader{form: ofKind(form), zone: activeZone}
	r := rules.Rule{Unlimited: rd.ticked("unlimited")} // which waives the limit
	readFields(rd, "", rules.Fields(), &r)
	rd.descriptor(&r)
	r.Tiers, r.Schedule, r.Calendar = rd.tiers(), rd.schedule(), rd.calendar()
	r.Defer, r.Candidate, r.Ban = rd.deferral(r.OverLimit), rd.candidate(), rd.ban()
	if r.Calendar == nil && rd.text("window_ms") == "" && !r.Unlimited {
		rd.wrong("window_ms", "is required")
	}
	r.Normalize()
	return r, rd.errs
}

// readFields reads the fields of an object, except composite ones.
func readFields[T any](rd *ruleReader, under string, fields []rules.Field[T], t *T) {
	for i := range fields {
		f := &fields[i]
		name := under + f.Name
		number := rd.whole
		if f.Millis {
			number = rd.millis
		}
		switch p := f.At(t).(type) {
		case *string:
			*p = rd.text(name)
		case **string:
			if s := rd.text(name); s != "" {
				*p = &s
			}
		case *bool:
			*p = rd.ticked(name)
		case *int64:
			if n := number(name); n != nil {
				*p = *n
			} else if f.Needed(t) || f.Default != nil { // the form shows the default, so it must not be empty
				rd.wrong(name, "is required")
			}
		case **int64:
			*p = number(name)
		case **time.Time:
			*p = rd.instant(name, rd.zone)
		case *[]string:
			*p = slices.Clone(rd.form[name])
		case *[]int64:
			*p = rd.numbers(name)
		}
	}
}

func (rd *ruleReader) wrong(field, message string) {
	if !slices.ContainsFunc(rd.errs, func(e rules.FieldError) bool { return e.Field == field }) {
		rd.errs = append(rd.errs, rules.FieldError{Field: field, Message: message})
	}
}

func (rd *ruleReader) text(name string) string { return strings.TrimSpace(rd.form.Get(name)) }

func (rd *ruleReader) ticked(name string) bool { return rd.form.Get(name) != "" }

// whole reads a whole number, nil if the field is empty.
func (rd *ruleReader) whole(name string) *int64 {
	s := rd.text(name)
	if s == "" {
		return nil
	}
	n, err := kit.ParseWhole(s)
	if err != nil {
		rd.wrong(name, "must be a whole number")
		return nil
	}
	return &n
}

// numbers reads whole numbers with commas or blanks between them, nil if the field is empty.
func (rd *ruleReader) numbers(name string) (out []int64) {
	for _, text := range strings.FieldsFunc(rd.text(name), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
		if err != nil {
			rd.wrong(name, "must be whole numbers such as 80, 100")
			return nil
		}
		out = append(out, n)
	}
	return out
}

func (rd *ruleReader) tiers() map[string]rules.TierLimit {
	out := map[string]rules.TierLimit{}
	for i := range rowCount(rd.form, "tiers", rules.MaxTiers) {
		at := element("tiers", i)
		name := rd.text(at + ".name")
		if _, twice := out[name]; twice {
			rd.wrong(at+".name", "is a duplicate")
		}
		var t rules.TierLimit
		readFields(rd, at+".", rules.TierFields(), &t)
		out[name] = t
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (rd *ruleReader) schedule() *rules.Schedule {
	const list = "schedule.windows"
	n := rowCount(rd.form, list, rules.MaxScheduleWindows)
	if n == 0 {
		if rd.text("schedule.zone") != "" {
			rd.wrong("schedule.zone", "applies only to a schedule; add a row, or leave this field empty")
		}
		return nil
	}
	s := &rules.Schedule{Zone: rd.text("schedule.zone"), Windows: make([]rules.ScheduleWindow, n)}
	for i := range s.Windows {
		readFields(rd, element(list, i)+".", rules.WindowFields(), &s.Windows[i])
	}
	return s
}

func (rd *ruleReader) calendar() *rules.Calendar {
	every := rd.text("calendar.every")
	if every == "" {
		if rd.text("calendar.zone") != "" || rd.text("calendar.anchor_day") != "" {
			rd.wrong("calendar.every", "is required if a time zone or a first day is set")
		}
		return nil
	}
	c := &rules.Calendar{Every: every, Zone: rd.text("calendar.zone")}
	if day := rd.whole("calendar.anchor_day"); day != nil {
		c.AnchorDay = *day
		if *day == 0 {
			rd.wrong("calendar.anchor_day", "must be 1 or greater")
		}
	}
	return c
}

// deferral reads the bounds of the queue.
func (rd *ruleReader) deferral(overLimit string) *rules.Defer {
	items, age := rd.whole("defer.max_items"), rd.millis("defer.max_age_ms")
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
			rd.wrong(f.name, "applies only to a queue; choose Queue for excess requests, or leave this field empty")
			continue
		}
		if *f.into = *f.from; *f.from == 0 {
			rd.wrong(f.name, "must be greater than 0")
		}
	}
	if overLimit != rules.OverLimitDefer {
		return nil
	}
	return d
}

func (rd *ruleReader) candidate() *rules.Candidate {
	var c rules.Candidate
	readFields(rd, "candidate.", rules.CandidateFields(), &c)
	if c == (rules.Candidate{}) {
		return nil
	}
	return &c
}

// ban reads the ban, nil if all of its fields are empty.
func (rd *ruleReader) ban() *rules.Ban {
	fields, given := rules.BanFields(), false
	for i := range fields {
		given = given || rd.text("ban."+fields[i].Name) != ""
	}
	if !given {
		return nil
	}
	var b rules.Ban
	readFields(rd, "ban.", fields, &b)
	for i := range fields {
		if n, _ := fields[i].At(&b).(*int64); *n == 0 && rd.text("ban."+fields[i].Name) != "" {
			rd.wrong("ban."+fields[i].Name, "must be greater than 0")
		}
	}
	return &b
}

// element is the name of an element of a list in the form.
func element(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// rowFields are the fields of the rows of each list in the form.
var rowFields = map[string][]string{
	"tiers":            append([]string{"name"}, namesOf(rules.TierFields())...),
	"schedule.windows": namesOf(rules.WindowFields()),
}

func namesOf[T any](fields []rules.Field[T]) []string {
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
func toFormNames(form url.Values, errs []rules.FieldError) []rules.FieldError {
	var out []rules.FieldError
	for _, e := range errs {
		e = toDescriptorField(e)
		if rules.TopField(e.Field) == "notify_percent" {
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
		if !slices.ContainsFunc(out, func(o rules.FieldError) bool { return o.Field == e.Field }) {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b rules.FieldError) int { return cmp.Compare(orderOf(a.Field), orderOf(b.Field)) })
	return out
}
