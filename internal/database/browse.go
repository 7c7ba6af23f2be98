package database

import (
	"context"

	"gorm.io/gorm"

	"sluice/rules"
)

// sortColumns maps the orders of rules.Browse to columns.
var sortColumns = map[string]string{
	"name": "name", "scope": "scope", "route": "route", "algorithm": "algorithm", "limit": "limit_count",
	"mode": "mode", "fail_mode": "fail_mode", "updated_at": "updated_at",
}

// BrowseRules gives one page of the rules that a query selects, in the wanted
// order and by id among equals, with their number and who changed each last, all
// of one moment. A page size below 1 means 50, above 500 means 500.
func (d *DB) BrowseRules(ctx context.Context, b rules.Browse) (rules.Listing, error) {
	size := b.PageSize
	if size < 1 {
		size = defaultPageSize
	}
	for _, text := range []string{b.Text, b.Scope, b.Route, b.Method, b.Mode, b.FailMode} {
		if !storable(text) {
			return rules.Listing{}, nil // no row can hold it
		}
	}
	order := sortColumns[b.Sort]
	if order == "" {
		order = "name"
	}
	if b.Desc {
		order += " DESC"
	}
	list := rules.Listing{Editors: map[int64]rules.Actor{}}
	err := d.snapshot(ctx, d.callTimeout, func(tx *gorm.DB) error {
		where := func() *gorm.DB {
			tx := filtered(tx, b.Query)
			if b.FailMode != "" {
				tx = tx.Where("fail_mode = ?", b.FailMode)
			}
			return tx
		}
		if err := where().Model(&ruleRow{}).Count(&list.Total).Error; err != nil {
			return err
		}
		var rows []ruleRow
		if err := where().Order(order + ", id").Offset(max(0, b.Offset)).Limit(min(size, maxPageSize)).Find(&rows).Error; err != nil {
			return err
		}
		list.Rules = rulesOf(rows)
		return editorsOf(tx, rows, list.Editors)
	})
	if err != nil {
		return rules.Listing{}, err
	}
	return list, nil
}

// editorsOf looks up who made the present version of each row.
func editorsOf(tx *gorm.DB, rows []ruleRow, into map[int64]rules.Actor) error {
	if len(rows) == 0 {
		return nil
	}
	pairs := make([][]any, len(rows))
	for i := range rows {
		pairs[i] = []any{rows[i].ID, rows[i].Version}
	}
	var revisions []revisionRow
	if err := tx.Select("rule_id", "actor_kind", "actor_name").Where("(rule_id, version) IN ?", pairs).Find(&revisions).Error; err != nil {
		return err
	}
	for _, r := range revisions {
		into[r.RuleID] = rules.Actor{Kind: r.ActorKind, Name: r.ActorName}
	}
	return nil
}
