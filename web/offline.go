package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"sluice/rules"
)

// offlineActs are what may be posted while the rules database is unreachable:
// they change nothing in it, but for signing out, which this node remembers.
var offlineActs = []string{pathSignOut, pathTheme, pathExplain, pathSignIn}

// readOnly refuses a change by a session that is only remembered.
func (v *visit) readOnly() error {
	if !v.offline || v.Request().Method != http.MethodPost || slices.Contains(offlineActs, v.route.Path) {
		return nil
	}
	return errAway
}

// browse lists rules from the database, or from the set in force if that does not
// answer.
func (s *Server) browse(v *visit, b rules.Browse) (rules.Listing, error) {
	if !v.offline {
		list, err := s.deps.Rules.BrowseRules(v.ctx, b)
		if !errors.Is(err, rules.ErrUnavailable) {
			return list, err
		}
		v.away = true
	}
	return browseSet(s.setNow(), b), nil
}

// browseSet lists the rules in force as BrowseRules does those that are stored.
// Nobody knows who made them.
func browseSet(set *rules.Set, b rules.Browse) rules.Listing {
	var out rules.Listing
	if set == nil || b.Active != nil && !*b.Active {
		return out
	}
	text := strings.ToLower(b.Text)
	for i := range set.Len() {
		r := &set.At(i).Rule
		has := strings.Contains(strings.ToLower(r.Name+"\n"+r.Description), text) || r.Route != nil && strings.Contains(strings.ToLower(*r.Route), text)
		if has && (b.Mode == "" || r.Mode == b.Mode) && (b.FailMode == "" || r.FailMode == b.FailMode) {
			out.Rules = append(out.Rules, *r)
		}
	}
	route := func(r *rules.Rule) string {
		if r.Route == nil {
			return ""
		}
		return *r.Route
	}
	slices.SortStableFunc(out.Rules, func(x, y rules.Rule) int {
		n := 0
		switch b.Sort {
		case "scope":
			n = cmp.Compare(x.Scope, y.Scope)
		case "route":
			n = cmp.Compare(route(&x), route(&y))
		case "algorithm":
			n = cmp.Compare(x.Algorithm, y.Algorithm)
		case "limit":
			n = cmp.Compare(x.Limit, y.Limit)
		case "mode":
			n = cmp.Compare(x.Mode, y.Mode)
		case "fail_mode":
			n = cmp.Compare(x.FailMode, y.FailMode)
		case "updated_at":
			n = x.UpdatedAt.Compare(y.UpdatedAt)
		}
		if n = cmp.Or(n, cmp.Compare(x.Name, y.Name)); b.Desc {
			return -n
		}
		return n
	})
	out.Total = int64(len(out.Rules))
	from := min(b.Offset, len(out.Rules))
	out.Rules = out.Rules[from:min(from+b.PageSize, len(out.Rules))]
	return out
}
