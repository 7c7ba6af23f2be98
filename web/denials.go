package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/fleet"
	"sluice/rules"
	"sluice/web/view"
)

// denialsPerPage is how many denials a page has.
const denialsPerPage = 100

// maxNames is how many rules are offered by name; beyond it typing is quicker.
const maxNames = 300

// denialSpans are the times in which to look for denials.
var denialSpans = map[string]time.Duration{"1m": time.Minute, "5m": 5 * time.Minute, "15m": 15 * time.Minute, "1h": time.Hour, "24h": 24 * time.Hour}

// listDenials shows sampled denials, filtered by what the URL says.
func (s *Server) listDenials(v *visit) error {
	m, err := s.denialsOf(v)
	if unread(err) {
		return s.countersAway(err)
	}
	m.Rules = s.ruleNames()
	return v.page(http.StatusOK, view.DenialsPage(v.frame("Denials", pathDenials), m))
}

// denialsOf are the denials that the URL of a visit chooses.
func (s *Server) denialsOf(v *visit) (view.Denials, error) {
	q := v.QueryParams()
	now := s.deps.Now()
	f := fleet.Filter{Rule: q.Get("rule"), Key: q.Get("key"), Route: q.Get("route"), Mode: oneOf(q.Get("mode"), rules.ModeEnforce, rules.ModeShadow, "candidate")}
	if span := denialSpans[q.Get("since")]; span > 0 {
		f.From = now.Add(-span)
	}
	if to, err := strconv.ParseInt(q.Get("to"), 10, 64); err == nil && to > 0 {
		f.To = time.UnixMilli(to)
	}
	found, err := s.deps.Inspect.Denials.Denials(v.ctx, f, denialsPerPage+1)
	m := view.Denials{
		Lines: found[:min(len(found), denialsPerPage)], Query: view.NewQuery(pathDenials, q, "key", "route", "rule", "mode", "since", "to"), Now: now,
	}
	m.IDs = s.ruleIDs(m.Lines)
	var own *fleet.OwnError
	if m.Own = errors.As(err, &own); m.Own {
		m.Since = own.Since
	}
	if len(found) > denialsPerPage {
		m.Older = m.Query.With("to", strconv.FormatInt(found[denialsPerPage].At+1, 10))
	}
	return m, err
}

// countersAway is the page for what the counters would have to tell.
func (s *Server) countersAway(err error) error {
	s.log.Warn("the console could not read the counters", "error", err)
	return &problem{
		http.StatusServiceUnavailable, "Redis is unreachable",
		"Denials and remaining quota are stored in Redis, which is unreachable right now. Nothing was changed. Try again in a moment.",
	}
}

// ruleNames are the names of the rules in force, nil if they are too many to
// choose from.
func (s *Server) ruleNames() []string {
	set := s.deps.Sets.Load()
	if set == nil || set.Len() > maxNames {
		return nil
	}
	names := make([]string, set.Len())
	for i := range names {
		names[i] = set.At(i).Rule.Name
	}
	return names
}

// ruleIDs finds the rules in force that denials are of.
func (s *Server) ruleIDs(lines []fleet.Denial) map[string]int64 {
	ids := map[string]int64{}
	for i := range lines {
		ids[lines[i].Rule] = 0
	}
	if set := s.deps.Sets.Load(); set != nil {
		for i := range set.Len() {
			r := &set.At(i).Rule
			if _, wanted := ids[r.Name]; wanted {
				ids[r.Name] = r.ID
			}
		}
	}
	return ids
}

// inForce finds a rule in force by its name, nil if there is none.
func (s *Server) inForce(name string) *rules.Compiled {
	set := s.deps.Sets.Load()
	if set == nil {
		return nil
	}
	for i := range set.Len() {
		if set.At(i).Rule.Name == name {
			return set.At(i)
		}
	}
	return nil
}

// keyPath is where the page of a bucket is.
func keyPath(rule, key string) string {
	return pathKeys + "?" + url.Values{"rule": {rule}, "key": {key}}.Encode()
}
