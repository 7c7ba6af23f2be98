package database

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"gorm.io/gorm"

	"sluice/rules"
	"sluice/rules/host"
	"sluice/rules/match"
)

// Bounds of a page.
const (
	defaultPageSize = 50
	maxPageSize     = 500
)

// ListRules returns one page of the rules that a query selects, ordered by id. A page size below 1
// means 50, above 500 means 500. Rows that would not pass validation are listed too, so that
// people can see and repair them.
func (d *DB) ListRules(ctx context.Context, q rules.Query) (rules.Page, error) {
	size := q.PageSize
	if size < 1 {
		size = defaultPageSize
	}
	size = min(size, maxPageSize)
	if !findable(q) {
		return rules.Page{Rules: []rules.Rule{}}, nil
	}
	var rows []ruleRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return filtered(tx, q).Where("id > ?", q.AfterID).Order("id").Limit(size + 1).Find(&rows).Error
	})
	if err != nil {
		return rules.Page{}, err
	}
	more := len(rows) > size
	return rules.Page{Rules: rulesOf(rows[:min(len(rows), size)]), More: more}, nil
}

// filtered adds a query's conditions.
func filtered(tx *gorm.DB, q rules.Query) *gorm.DB {
	for _, word := range q.Words() {
		like := "%" + likeEscaper.Replace(word) + "%"
		host := "%" + likeEscaper.Replace(host.Normal(word)) + "%"
		tx = tx.Where(textCondition(tx), like, like, like, host)
	}
	for name, value := range q.Equal {
		if name == "method" {
			value = strings.ToUpper(value)
		}
		f := rules.FieldNamed(name)
		switch {
		case value == "":
		case name == rules.FilterDomain:
			tx = tx.Where("policies -> 'descriptor' ->> 'domain' = ?", value)
		case name == "host":
			tx = tx.Where("policies ->> 'host' = ?", host.Normal(value))
		case f != nil:
			tx = tx.Where(f.Name+" = ?", value)
		}
	}
	if q.Active != nil {
		tx = tx.Where("is_active = ?", *q.Active)
	}
	if q.IDs != nil {
		tx = tx.Where("id IN "+idList(tx), idArray(q.IDs))
	}
	if q.Except != nil {
		tx = tx.Where("id NOT IN "+idList(tx), idArray(q.Except))
	}
	return tx
}

// idList is a list of ids from one parameter, because the number of parameters of a statement is bounded.
func idList(tx *gorm.DB) string {
	if dialect(tx.Name()) == dialectSQLite {
		return "(SELECT value FROM json_each(?))"
	}
	return "(SELECT json_array_elements_text(?::json)::bigint)"
}

// idArray is a JSON array of ids.
func idArray(ids []int64) string {
	out := []byte{'['}
	for i, id := range ids {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, id, 10)
	}
	return string(append(out, ']'))
}

// textCondition searches a word in what people read of a rule, in any case. Names and hosts are in lower
// case. It takes most of a search's time. SQLite's LIKE ignores the case of ASCII letters, so
// lower() would be useless there.
func textCondition(tx *gorm.DB) string {
	if tx.Name() == "sqlite" {
		const has = ` LIKE ? ESCAPE '\'`
		return "(name" + has + " OR description" + has + " OR route" + has + " OR policies ->> 'host'" + has + ")"
	}
	const has = ` LIKE lower(?) ESCAPE '\'`
	return "(name" + has + " OR lower(description)" + has + " OR lower(route)" + has + " OR policies ->> 'host'" + has +
		")"
}

// likeEscaper escapes the wildcards of LIKE.
var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// maxStored is above the longest text of any searched column.
const maxStored = 4096

// storable reports whether a column can hold the text. Postgres refuses NUL and invalid UTF-8 even
// in a comparison, SQLite refuses very long patterns.
func storable(text string) bool {
	return len(text) <= maxStored && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// findable reports whether a row can hold the texts of a query.
func findable(q rules.Query) bool {
	for _, text := range q.Equal {
		if !storable(text) {
			return false
		}
	}
	return storable(q.Text)
}

// GetRule returns the rule with an id, or ErrNotFound.
func (d *DB) GetRule(ctx context.Context, id int64) (rules.Rule, error) {
	return d.oneRule(ctx, "id = ?", id)
}

// GetRuleByName returns the rule with a name, or ErrNotFound.
func (d *DB) GetRuleByName(ctx context.Context, name string) (rules.Rule, error) {
	if !storable(name) {
		return rules.Rule{}, rules.ErrNotFound
	}
	return d.oneRule(ctx, "name = ?", name)
}

func (d *DB) oneRule(ctx context.Context, condition string, value any) (rules.Rule, error) {
	var row ruleRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where(condition, value).Take(&row).Error
	})
	if err != nil {
		return rules.Rule{}, err
	}
	return row.rule(), nil
}

func isNotFound(err error) bool {
	return errors.Is(err, rules.ErrNotFound) || errors.Is(err, gorm.ErrRecordNotFound)
}

// LoadRules returns the active rules ordered by id, the pools and profiles ordered by name and
// their version, as of one moment. It does not validate rows: compiling them finds an invalid one, and then the
// last good set stays in force.
func (d *DB) LoadRules(ctx context.Context) (rules.Source, error) {
	return d.load(ctx, true)
}

// LoadAllRules is LoadRules with the inactive rules too, for an export or a plan.
func (d *DB) LoadAllRules(ctx context.Context) (rules.Source, error) {
	return d.load(ctx, false)
}

func (d *DB) load(ctx context.Context, onlyActive bool) (rules.Source, error) {
	var source rules.Source
	err := d.longSnapshot(ctx, func(tx *gorm.DB, progress func()) error {
		v, err := versionsIn(tx)
		if err != nil {
			return err
		}
		source.Version, source.Stamp = v.Rules.N, v.Rules.Stamp
		if source.Pools, err = pools.read(tx); err != nil {
			return err
		}
		if source.Profiles, err = profiles.read(tx); err != nil {
			return err
		}
		if onlyActive {
			tx = tx.Where("is_active = ?", true)
		}
		source.Rules, err = readRules(tx, progress)
		return err
	})
	if err != nil {
		return rules.Source{}, err
	}
	return source, nil
}

// LoadChanges returns the changes of the rules since the version that a node has. If ok is false
// it returns nothing, and the node must load everything: since is too old, or from another
// history. The delta's pools are all pools; the caller compares them. Its
// profiles are all profiles, and count as changed.
func (d *DB) LoadChanges(ctx context.Context, since Version) (delta match.Delta, is Version, ok bool, err error) {
	err = d.longSnapshot(ctx, func(tx *gorm.DB, progress func()) error {
		v, err := versionsIn(tx)
		if err != nil {
			return err
		}
		is = v.Rules
		if ok, err = continues(tx, areaRules, since, is); err != nil || !ok {
			return err
		}
		if delta.Pools, err = pools.read(tx); err != nil {
			return err
		}
		if delta.Profiles, err = profiles.read(tx); err != nil {
			return err
		}
		if err := tx.Table("rule_tombstones").Where("seq > ?", since.N).Pluck("rule_id", &delta.Removed).Error; err != nil {
			return err
		}
		delta.Changed, err = readRules(tx.Where("seq > ?", since.N), progress)
		return err
	})
	if err != nil || !ok {
		return match.Delta{}, NoVersion, false, err
	}
	delta.ProfilesChanged, delta.Version = true, is.N
	return delta, is, true, nil
}

// readRules returns the rules that a query selects, ordered by id. It holds one row at a time,
// because there may be 100,000.
func readRules(tx *gorm.DB, progress func()) (found []rules.Rule, err error) {
	rows, err := tx.Model(&ruleRow{}).Order("id").Rows()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	found = []rules.Rule{}
	for rows.Next() {
		progress()
		var row ruleRow
		if err := tx.ScanRows(rows, &row); err != nil {
			return nil, err
		}
		found = append(found, row.rule())
	}
	return found, rows.Err()
}
