package kit

import (
	"cmp"
	"errors"
	"slices"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/match"
)

// Browse lists rules from the database, or from the set in force if the database is unreachable.
func (v *Visit) Browse(b rules.Browse) (rules.Listing, error) {
	if !v.Offline {
		list, err := v.kit.Rules.BrowseRules(v.Ctx, b)
		if !errors.Is(err, rules.ErrUnavailable) {
			return list, err
		}
		v.DatabaseDown = true
	}
	return browseSet(v.kit.Sets.Load(), b), nil
}

// browseSet lists the rules in force in the way BrowseRules lists stored rules. Their editors are unknown.
func browseSet(set *match.Set, b rules.Browse) rules.Listing {
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
		case b.Sort == "owner":
			n = compareOwners(x.Owner, y.Owner, b.Desc)
			return cmp.Or(n, cmp.Compare(x.Name, y.Name))
		case b.Sort == "id":
			n = cmp.Compare(x.ID, y.ID)
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

// compareOwners compares two owners; none comes last.
func compareOwners(x, y *string, desc bool) int {
	switch {
	case x == nil && y == nil:
		return 0
	case x == nil:
		return 1
	case y == nil:
		return -1
	case desc:
		return cmp.Compare(*y, *x)
	}
	return cmp.Compare(*x, *y)
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

// RuleIDs maps the rule names of denials to the IDs of the rules in force, 0 for others.
func (k *Kit) RuleIDs(lines []history.Request) map[string]int64 {
	names := make([]string, len(lines))
	for i := range lines {
		names[i] = lines[i].Rule
	}
	return k.IDs(names...)
}

// IDs maps names of rules to the IDs of the rules in force, 0 for others.
func (k *Kit) IDs(names ...string) map[string]int64 {
	ids := map[string]int64{}
	for _, name := range names {
		ids[name] = 0
	}
	if set := k.Sets.Load(); set != nil {
		for i := range set.Len() {
			r := &set.At(i).Rule
			if _, wanted := ids[r.Name]; wanted {
				ids[r.Name] = r.ID
			}
		}
	}
	return ids
}

// maxNames is how many names of rules are suggested; with more, none are.
const maxNames = 300

// RuleNames are the names of the rules in force, to choose from; nil if there are too many.
func (k *Kit) RuleNames() []string {
	set := k.Sets.Load()
	if set == nil || set.Len() > maxNames {
		return nil
	}
	names := make([]string, set.Len())
	for i := range names {
		names[i] = set.At(i).Rule.Name
	}
	return names
}

// Options returns the settings that decide which addresses are counted together.
func (k *Kit) Options() match.Options {
	if set := k.Sets.Load(); set != nil {
		return set.Options()
	}
	return match.Options{}
}
