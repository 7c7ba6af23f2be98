package web

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
	for name, s := range map[string]string{
		"name": r.Name, "description": r.Description, "scope": r.Scope, "algorithm": r.Algorithm, "throttle": r.Throttle,
		"charge_on": r.ChargeOn, "over_limit": r.OverLimit, "hot_keys": r.HotKeys, "mode": r.Mode, "fail_mode": r.FailMode,
	} {
		put(f, name, s)
	}
	for name, s := range map[string]*string{
		"route": r.Route, "method": r.Method, "align": r.Align, "weight_field": r.WeightField, "pool": r.Pool, "priority": r.Priority, "when": r.When,
	} {
		if s != nil {
			put(f, name, *s)
		}
	}
	f.Set("limit", strconv.FormatInt(r.Limit, 10))
	putNumbers(f, map[string]*int64{
		"burst": r.Burst, "buckets": r.Buckets, "soft_percent": r.SoftPercent,
		"elastic_percent": r.ElasticPercent, "hot_raise_percent": r.HotRaisePercent,
	})
	if r.Calendar == nil {
		putMillis(f, "window_ms", &r.WindowMS)
	}
	putMillis(f, "retry_jitter_ms", r.RetryJitterMS)
	putMillis(f, "anchor_ms", r.AnchorMS)
	putInstant(f, "active_from", r.ActiveFrom)
	putInstant(f, "active_until", r.ActiveUntil)
	if r.IsActive {
		f.Set("is_active", "on")
	}
	putComposites(f, r)
	return f
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
		putNumbers(f, map[string]*int64{at + ".limit": t.Limit, at + ".burst": t.Burst})
		if t.Unlimited {
			f.Set(at+".unlimited", "on")
		}
	}
	if s := r.Schedule; s != nil {
		f.Set("schedule.zone", s.Zone)
		for i := range s.Windows {
			w, at := &s.Windows[i], element("schedule.windows", i)
			f.Set(at+".from", w.From)
			f.Set(at+".to", w.To)
			if len(w.Days) > 0 {
				f[at+".days"] = slices.Clone(w.Days)
			}
			putNumbers(f, map[string]*int64{at + ".percent": w.Percent, at + ".limit": w.Limit, at + ".burst": w.Burst})
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
		putNumbers(f, map[string]*int64{"defer.max_items": &d.MaxItems})
		putMillis(f, "defer.max_age_ms", &d.MaxAgeMS)
	}
	if c := r.Candidate; c != nil {
		put(f, "candidate.algorithm", c.Algorithm)
		putNumbers(f, map[string]*int64{
			"candidate.limit": c.Limit, "candidate.burst": c.Burst, "candidate.buckets": c.Buckets,
		})
		putMillis(f, "candidate.anchor_ms", c.AnchorMS)
		putMillis(f, "candidate.window_ms", c.WindowMS)
		if c.Align != nil {
			f.Set("candidate.align", *c.Align)
		}
	}
}

func put(f url.Values, name, value string) {
	if value != "" {
		f.Set(name, value)
	}
}

func putNumbers(f url.Values, numbers map[string]*int64) {
	for name, n := range numbers {
		if n != nil {
			f.Set(name, strconv.FormatInt(*n, 10))
		}
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
		layout = "2006-01-02T15:04" // browsers show no seconds then
	}
	f.Set(name, t.UTC().Format(layout))
}

// formOrder is the order of the fields on the page, by what their names begin with.
var formOrder = []string{
	"name", "description", "method", "route", "scope", "when", "limit", "window_ms", "burst", "algorithm", "over_limit", "defer", "mode", "fail_mode",
	"tiers", "schedule", "calendar", "active_", "throttle", "soft_percent", "elastic_percent", "pool", "priority", "retry_jitter_ms", "candidate",
	"align", "anchor_ms", "buckets", "weight_field", "charge_on", "hot_",
}

func orderOf(field string) int {
	i := slices.IndexFunc(formOrder, func(p string) bool { return strings.HasPrefix(field, p) })
	if i < 0 {
		return len(formOrder)
	}
	return i
}
