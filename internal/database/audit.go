package database

import (
	"context"
	"encoding/json"
	"strings"

	"gorm.io/gorm"

	"sluice/internal/audit"
	"sluice/rules"
)

// ListAudit returns entries, newest first.
func (d *DB) ListAudit(ctx context.Context, q audit.Query) ([]audit.Entry, error) {
	for _, text := range []string{q.SubjectKind, q.Actor, q.Subject, q.Action} {
		if !storable(text) {
			return nil, nil // no row can hold it
		}
	}
	limit := q.Limit
	if limit < 1 {
		limit = defaultPageSize
	}
	var rows []auditRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		if q.SubjectKind != "" {
			tx = tx.Where("subject_kind = ?", q.SubjectKind)
		}
		if q.SubjectID != 0 {
			tx = tx.Where("subject_id = ?", q.SubjectID)
		}
		if q.Action != "" {
			tx = tx.Where("action = ?", q.Action)
		}
		if q.Actor != "" {
			tx = tx.Where("actor_name LIKE ? ESCAPE '!'", beginning(q.Actor))
		}
		if q.Subject != "" {
			tx = tx.Where("subject_name LIKE ? ESCAPE '!'", beginning(q.Subject))
		}
		if !q.Since.IsZero() {
			tx = tx.Where("at >= ?", newRowTime(q.Since))
		}
		if !q.Until.IsZero() {
			tx = tx.Where("at < ?", newRowTime(q.Until))
		}
		if q.BeforeID > 0 {
			tx = tx.Where("id < ?", q.BeforeID)
		}
		return tx.Order("id DESC").Limit(min(limit, maxPageSize)).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	entries := make([]audit.Entry, len(rows))
	for i, row := range rows {
		entries[i] = audit.Entry{
			ID: row.ID, At: row.At.Time, Actor: rules.Actor{Kind: row.ActorKind, Name: row.ActorName},
			Action: row.Action, SubjectKind: row.SubjectKind, SubjectID: row.SubjectID, SubjectName: row.SubjectName,
			Details: json.RawMessage(row.Details),
		}
	}
	return entries, nil
}

var likeSigns = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// beginning returns the LIKE pattern of texts that start with a text.
func beginning(text string) string { return likeSigns.Replace(text) + "%" }
