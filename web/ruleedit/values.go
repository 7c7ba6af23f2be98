package ruleedit

import (
	"net/url"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/web/bind"
	"sluice/web/view"
)

// valuesOf fills the form of a rule; ruleOf reads the same rule from it.
func valuesOf(r *rules.Rule) url.Values {
	f := url.Values{}
	bind.Put(f, "", rules.Fields(), r)
	f.Set("limit", view.Digits(r.Limit)) // also when it is 0
	if r.Calendar != nil {
		f.Del("window_ms")
		f.Del("window_ms" + bind.UnitSuffix)
	}
	putComposites(f, r)
	putDescriptor(f, r)
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
		bind.Put(f, at+".", rules.TierFields(), &t)
	}
	if s := r.Schedule; s != nil {
		f.Set("schedule.zone", s.Zone)
		for i := range s.Windows {
			bind.Put(f, element("schedule.windows", i)+".", rules.WindowFields(), &s.Windows[i])
		}
	}
	if c := r.Calendar; c != nil {
		f.Set("calendar.every", c.Every)
		f.Set("calendar.zone", c.Zone)
		f.Set("calendar.at", c.At)
		for name, n := range map[string]int64{"anchor_day": c.AnchorDay, "anchor_month": c.AnchorMonth} {
			if n != 0 {
				f.Set("calendar."+name, view.Digits(n))
			}
		}
	}
	if d := r.Defer; d != nil {
		f.Set("defer.max_items", view.Digits(d.MaxItems))
		bind.PutMillis(f, "defer.max_age_ms", &d.MaxAgeMS)
	}
	if b := r.Ban; b != nil {
		bind.Put(f, "ban.", rules.BanFields(), b)
	}
	if d := r.Denial; d != nil {
		bind.Put(f, "denial.", rules.DenialFields(), d)
	}
	if d := r.Delay; d != nil {
		bind.Put(f, "delay.", rules.DelayFields(), d)
	}
	if w := r.Warn; w != nil {
		bind.Put(f, "warn.", rules.WarnFields(), w)
		bind.PutText(f, "warn.set", pairLines(w.Set))
	}
	if c := r.Candidate; c != nil {
		bind.Put(f, "candidate.", rules.CandidateFields(), c)
	}
}

// formOrder is the order of the fields on the page, by the start of their names.
var formOrder = []string{
	"name", "owner", "description", "kind", "descriptor",
	"method", "route", "host", "scope", "when", "limit", "window_ms", "burst", "algorithm",
	"over_limit", "defer", "mode", "fail_mode", "overload",
	"addend", "quota", "share_threshold", "replaces", "metadata",
	"tiers", "schedule", "calendar", "keep_periods", "unlimited", "active_", "throttle",
	"soft_percent", "elastic_percent", "pool", "priority",
	"retry_jitter_ms", "message", "ban", "denial", "delay", "tarpit_ms", "hidden", "counts",
	"unit", "warn", "candidate",
	"align", "anchor_ms", "buckets", "weight_field", "limit_field", "charge_on", "hot_",
	"span", "max_over_percent", "cold", "cut_off", "log_percent", "notify_percent",
}

func orderOf(field string) int {
	i := slices.IndexFunc(formOrder, func(p string) bool { return strings.HasPrefix(field, p) })
	if i < 0 {
		return len(formOrder)
	}
	return i
}
