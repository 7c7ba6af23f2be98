package database

import (
	"cmp"
	"context"
	"slices"

	"gorm.io/gorm"

	"sluice/rules"
)

// sortColumns maps the orders of rules.Browse to columns.
var sortColumns = map[string]string{
	"name": "name", "scope": "scope", "route": "route", "algorithm": "algorithm", "limit": "limit_count",
	"mode": "mode", "fail_mode": "fail_mode", "updated_at": "updated_at",
	"owner": "owner IS NULL, owner", "id": "id",
}

// BrowseRules returns one page of the rules that a query selects, in the requested order and by id
// among equals, with their number and the author of each current version, all as of one moment. A
// page size below 1 means 50, above 500 means 500.
func (d *DB) BrowseRules(ctx context.Context, b rules.Browse) (rules.Listing, error) {
	size := b.PageSize
	if size < 1 {
		size = defaultPageSize
	}
	if !findable(b.Query) {
		return rules.Listing{}, nil
	}
	order := sortColumns[b.Sort]
	if order == "" {
		order = "name"
	}
	if b.Desc {
		order += " DESC"
	}
	if b.Sort == "owner" {
		order += ", name"
	}
	list := rules.Listing{Editors: map[int64]rules.Actor{}}
	err := d.snapshot(ctx, d.callTimeout, func(tx *gorm.DB) error {
		where := func() *gorm.DB { return filtered(tx, b.Query) }
		page := func() *gorm.DB {
			return where().Order(order + ", id").Offset(max(0, b.Offset)).Limit(min(size, maxPageSize))
		}
		var rows []ruleRow
		var err error
		searching := len(b.Words()) > 0
		if searching {
			rows, list.Total, err = searched(tx, page())
		}
		if err == nil && len(rows) == 0 && (!searching || b.Offset > 0) {
			rows, list.Total, err = counted(where(), page())
		}
		if err != nil {
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

// searched returns the page of rules that page finds, and their number without its bounds. No
// index helps a text search, so every rule is read. This reads them once and sorts only what it
// needs.
func searched(tx, page *gorm.DB) (rows []ruleRow, total int64, err error) {
	var hits []struct{ ID, Total int64 }
	if err := page.Model(&ruleRow{}).Select("id, COUNT(*) OVER () AS total").Find(&hits).Error; err != nil ||
		len(hits) == 0 {
		return nil, 0, err
	}
	ids, place := make([]int64, len(hits)), make(map[int64]int, len(hits))
	for i := range hits {
		ids[i], place[hits[i].ID] = hits[i].ID, i
	}
	if err := tx.Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, 0, err
	}
	slices.SortFunc(rows, func(a, b ruleRow) int { return cmp.Compare(place[a.ID], place[b.ID]) })
	return rows, hits[0].Total, nil
}

// counted returns a page of rules, and counts them separately, with the help of indexes.
func counted(all, page *gorm.DB) (rows []ruleRow, total int64, err error) {
	if err := all.Model(&ruleRow{}).Count(&total).Error; err != nil {
		return nil, 0, err
	}
	err = page.Find(&rows).Error
	return rows, total, err
}

// editorsOf loads the author of the current version of each row.
func editorsOf(tx *gorm.DB, rows []ruleRow, into map[int64]rules.Actor) error {
	if len(rows) == 0 {
		return nil
	}
	pairs := make([][]any, len(rows))
	for i := range rows {
		pairs[i] = []any{rows[i].ID, rows[i].Version}
	}
	var revisions []revisionRow
	if err := tx.Select("rule_id", "actor_kind", "actor_name").Where("(rule_id, version) IN ?",
		pairs).Find(&revisions).Error; err != nil {
		return err
	}
	for _, r := range revisions {
		into[r.RuleID] = rules.Actor{Kind: r.ActorKind, Name: r.ActorName}
	}
	return nil
}
