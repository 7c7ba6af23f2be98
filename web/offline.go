package web

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

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
	if set == nil {
		return out
	}
	for i := range set.Len() {
		if r := &set.At(i).Rule; b.Selects(r) {
			out.Rules = append(out.Rules, *r)
		}
	}
	sortBy := rules.FieldNamed(b.Sort)
	slices.SortStableFunc(out.Rules, func(x, y rules.Rule) int {
		n := 0
		switch {
		case sortBy != nil:
			n = compareValues(sortBy.Value(&x), sortBy.Value(&y))
		case b.Sort == "updated_at":
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

// compareValues compares two texts or two numbers; nil is the empty text.
func compareValues(x, y any) int {
	if n, ok := x.(int64); ok {
		m, _ := y.(int64)
		return cmp.Compare(n, m)
	}
	a, _ := x.(string)
	b, _ := y.(string)
	return cmp.Compare(a, b)
}
