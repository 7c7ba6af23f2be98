package database

import (
	"maps"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
)

// namedRules notes the effects of a change on the names in the member replaces of rules.
type namedRules struct {
	// written contains the names of stored rules with replaces, gone the names of deleted rules, and renamed the new
	// names of rules by their former names. kinds: a rule gained or lost its descriptor.
	written map[string]bool
	gone    []string
	renamed map[string]string
	kinds   bool
}

// writes notes a rule that the change stores; was is nil for a new one.
func (n *namedRules) writes(was, is *rules.Rule) {
	if len(is.Replaces) > 0 {
		if n.written == nil {
			n.written = map[string]bool{}
		}
		n.written[is.Name] = true
	}
	if was == nil {
		return
	}
	n.kinds = n.kinds || (was.Descriptor == nil) != (is.Descriptor == nil)
	if was.Name != is.Name {
		if n.renamed == nil {
			n.renamed = map[string]string{}
		}
		n.renamed[was.Name] = is.Name
	}
}

// replacingRules reads the rules that have replaces, in order of name.
func (c *change) replacingRules() ([]rules.Rule, error) {
	var rows []ruleRow
	if err := c.tx.Where("policies ->> 'replaces' IS NOT NULL").Order("name").Find(&rows).Error; err != nil {
		return nil, err
	}
	return rulesOf(rows), nil
}

// fewNames is the largest number of names for which rules are searched. For more names, reading all rules with replaces
// takes less time.
const fewNames = 20

// concernedRules reads the rules with replaces that the change may concern, in order of name: the rules that it stores,
// and the rules that name a rule which it deletes or renames. So a change of one rule among 100,000 takes little time.
func (c *change) concernedRules() ([]rules.Rule, error) {
	n := &c.named
	names := slices.AppendSeq(slices.Clone(n.gone), maps.Keys(n.renamed))
	if n.kinds || len(names) > fewNames {
		return c.replacingRules()
	}
	var rows []ruleRow
	find := func(where string, args ...any) error {
		var some []ruleRow
		err := c.tx.Where("policies ->> 'replaces' IS NOT NULL AND ("+where+")", args...).Find(&some).Error
		rows = append(rows, some...)
		return err
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(n.written)), insertBatch) {
		if err := find("name IN ?", some); err != nil {
			return nil, err
		}
	}
	for _, name := range names { // _ stands for any character, so it may find too many
		if err := find("policies ->> 'replaces' LIKE ?", `%"`+name+`"%`); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(rows, func(a, b ruleRow) int { return strings.Compare(a.Name, b.Name) })
	return rulesOf(slices.CompactFunc(rows, func(a, b ruleRow) bool { return a.Name == b.Name })), nil
}

// settleReplaces moves names that rules have in replaces with renamed rules, and refuses the change if one of them
// names a rule that does not exist, or one of the other kind. It runs at the end, because a plan may write rules in
// any order.
func (c *change) settleReplaces() error {
	n := &c.named
	if n.written == nil && n.gone == nil && n.renamed == nil && !n.kinds {
		return nil
	}
	replacing, err := c.concernedRules()
	if err != nil || len(replacing) == 0 {
		return err
	}
	if err := c.moveNames(replacing); err != nil {
		return err
	}
	kinds, err := c.kindsOf(replacing)
	if err != nil {
		return err
	}
	for i := range replacing {
		if r := &replacing[i]; n.written[r.Name] {
			if ps := r.ReplacesProblems(kinds); len(ps) > 0 {
				return &field.ValidationError{Fields: ps}
			}
		}
	}
	for _, name := range n.gone {
		if _, exists := kinds[name]; exists {
			continue
		}
		if by := naming(replacing, name); by != nil {
			return &rules.NamedError{Name: name, By: by}
		}
	}
	if !n.kinds {
		return nil
	}
	for i := range replacing {
		for _, name := range replacing[i].Replaces {
			if described, exists := kinds[name]; exists && described != (replacing[i].Descriptor != nil) {
				return &field.ValidationError{Fields: []field.Problem{{Field: "descriptor",
					Message: "must stay as it is, because the rule " + replacing[i].Name + " names " + name + " in replaces"}}}
			}
		}
	}
	return nil
}

// naming returns the names of the rules without a descriptor that name a rule in replaces, nil for none. Rules with a
// descriptor may name rules that do not exist.
func naming(replacing []rules.Rule, name string) (by []string) {
	for i := range replacing {
		if r := &replacing[i]; r.Descriptor == nil && slices.Contains(r.Replaces, name) {
			by = append(by, r.Name)
		}
	}
	return by
}

// moveNames puts the new names of renamed rules into the replaces of others, as edits of these. A name that another
// rule has taken stays.
func (c *change) moveNames(replacing []rules.Rule) error {
	former := slices.Sorted(maps.Keys(c.named.renamed))
	if former == nil {
		return nil
	}
	var taken []string
	if err := c.tx.Model(&ruleRow{}).Where("name IN ?", former).Pluck("name", &taken).Error; err != nil {
		return err
	}
	var moved edits
	var at []int
	for i := range replacing {
		next := replacing[i].Clone()
		for k, name := range next.Replaces {
			if is, ok := c.named.renamed[name]; ok && !slices.Contains(taken, name) && !slices.Contains(next.Replaces, is) {
				next.Replaces[k] = is
			}
		}
		if slices.Equal(next.Replaces, replacing[i].Replaces) {
			continue
		}
		next, err := checked(next)
		if err != nil {
			return err
		}
		moved.add(&replacing[i], &next)
		at = append(at, i)
	}
	if err := c.replaceRules(actionUpdate, &moved); err != nil {
		return err
	}
	for k, i := range at {
		replacing[i] = moved.is[k]
	}
	return nil
}

// kindsOf reports, for each existing rule that is named in replaces, whether it has a descriptor.
func (c *change) kindsOf(replacing []rules.Rule) (map[string]bool, error) {
	kinds := map[string]bool{}
	var names []string
	for i := range replacing {
		names = append(names, replacing[i].Replaces...)
	}
	slices.Sort(names)
	for some := range slices.Chunk(slices.Compact(names), insertBatch) {
		var found []struct {
			Name      string
			Described bool
		}
		if err := c.tx.Model(&ruleRow{}).Where("name IN ?", some).
			Select("name, descriptor IS NOT NULL AS described").Find(&found).Error; err != nil {
			return nil, err
		}
		for _, f := range found {
			kinds[f.Name] = f.Described
		}
	}
	return kinds, nil
}

// namedBeyond returns, for each rule that a bulk edit may delete, the remaining rules that name it in replaces. Rules
// remain if the edit does not select them, or skips them.
func (c *change) namedBeyond(seen []rules.SeenVersion) (map[string][]string, error) {
	replacing, err := c.replacingRules()
	if err != nil {
		return nil, err
	}
	going := make(map[int64]int64, len(seen))
	for i := range seen {
		going[seen[i].ID] = seen[i].Version
	}
	by, noted := map[string][]string{}, make([]bool, len(replacing))
	for more := true; more; { // a remaining rule also keeps the rules that it names
		more = false
		for i := range replacing {
			r := &replacing[i]
			version, goes := going[r.ID]
			if noted[i] || r.Descriptor != nil || goes && version == r.Version && by[r.Name] == nil {
				continue
			}
			noted[i], more = true, true
			for _, name := range r.Replaces {
				by[name] = append(by[name], r.Name)
			}
		}
	}
	return by, nil
}
