package rulepages

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/rules"
)

// valuesOf fills the form of a rule; ruleOf reads the same rule from it.
func valuesOf(r *rules.Rule) url.Values {
	f := url.Values{}
	putFields(f, "", rules.Fields(), r)
	f.Set("limit", strconv.FormatInt(r.Limit, 10)) // also when it is 0
	if r.Calendar != nil {
		f.Del("window_ms")
		f.Del("window_ms" + unitSuffix)
	}
	putComposites(f, r)
	putDescriptor(f, r)
	return f
}

// putFields writes the fields of an object, except composite ones.
func putFields[T any](form url.Values, under string, fields []rules.Field[T], t *T) {
	for i := range fields {
		f := &fields[i]
		name := under + f.Name
		switch p := f.At(t).(type) {
		case **time.Time:
			putInstant(form, name, *p)
			continue
		case *[]string:
			if len(*p) > 0 {
				form[name] = slices.Clone(*p)
			}
			continue
		case *[]int64:
			put(form, name, listOf(*p))
			continue
		}
		switch v := f.Value(t).(type) {
		case string:
			put(form, name, v)
		case int64:
			if f.Millis {
				putMillis(form, name, &v)
			} else {
				form.Set(name, strconv.FormatInt(v, 10))
			}
		case bool:
			if v {
				form.Set(name, "on")
			}
		}
	}
}

// listOf writes numbers as the method numbers reads them.
func listOf(numbers []int64) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return strings.Join(texts, ", ")
}

func putComposites(f url.Values, r *rules.Rule) {
	names := make([]string, 0, len(r.Tiers))
	for name := range r.Tiers {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		t, at := r.Tiers[name], element("tiers", i)
		f.Set(at+".name", name)
		putFields(f, at+".", rules.TierFields(), &t)
	}
	if s := r.Schedule; s != nil {
		f.Set("schedule.zone", s.Zone)
		for i := range s.Windows {
			putFields(f, element("schedule.windows", i)+".", rules.WindowFields(), &s.Windows[i])
		}
	}
	if c := r.Calendar; c != nil {
		f.Set("calendar.every", c.Every)
		f.Set("calendar.zone", c.Zone)
		if c.AnchorDay != 0 {
			f.Set("calendar.anchor_day", strconv.FormatInt(c.AnchorDay, 10))
		}
	}
	if d := r.Defer; d != nil {
		f.Set("defer.max_items", strconv.FormatInt(d.MaxItems, 10))
		putMillis(f, "defer.max_age_ms", &d.MaxAgeMS)
	}
	if b := r.Ban; b != nil {
		putFields(f, "ban.", rules.BanFields(), b)
	}
	if c := r.Candidate; c != nil {
		putFields(f, "candidate.", rules.CandidateFields(), c)
	}
}

func put(f url.Values, name, value string) {
	if value != "" {
		f.Set(name, value)
	}
}

// putMillis writes a length of time in the largest unit that divides it.
func putMillis(f url.Values, name string, ms *int64) {
	if ms == nil {
		return
	}
	for _, u := range timeUnits {
		if *ms%u.ms == 0 && (*ms != 0 || u.ms == 1) {
			f.Set(name, strconv.FormatInt(*ms/u.ms, 10))
			f.Set(name+unitSuffix, u.name)
			return
		}
	}
}

func putInstant(f url.Values, name string, t *time.Time) {
	if t == nil {
		return
	}
	layout := "2006-01-02T15:04:05.999"
	if t.Equal(t.Truncate(time.Minute)) {
		layout = "2006-01-02T15:04" // browsers then show no seconds
	}
	f.Set(name, t.UTC().Format(layout))
}

// formOrder is the order of the fields on the page, by the start of their names.
var formOrder = []string{
	"name", "owner", "description", "kind", "descriptor",
	"method", "route", "host", "scope", "when", "limit", "window_ms", "burst", "algorithm",
	"over_limit", "defer", "mode", "fail_mode", "overload",
	"unlimited", "addend", "quota", "share_threshold", "replaces", "metadata",
	"tiers", "schedule", "calendar", "active_", "throttle", "soft_percent", "elastic_percent", "pool", "priority",
	"retry_jitter_ms", "message", "ban", "candidate",
	"align", "anchor_ms", "buckets", "weight_field", "charge_on", "hot_",
	"span", "max_over_percent", "cold", "cut_off", "log_percent", "notify_percent",
}

func orderOf(field string) int {
	i := slices.IndexFunc(formOrder, func(p string) bool { return strings.HasPrefix(field, p) })
	if i < 0 {
		return len(formOrder)
	}
	return i
}
