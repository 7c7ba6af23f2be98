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
		tx = ofSubject(tx, &q)
		if q.Action != "" {
			tx = tx.Where("action = ?", q.Action)
		}
		if q.Actor != "" {
			tx = tx.Where("actor_name LIKE ? ESCAPE '!'", beginning(q.Actor))
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

// ofSubject selects the entries about the subject of a query. The revisions say which rules a bulk edit is about.
func ofSubject(tx *gorm.DB, q *audit.Query) *gorm.DB {
	switch {
	case q.SubjectKind == subjectRule && q.SubjectID != 0:
		tx = tx.Where("(subject_kind = ? AND subject_id = ? OR subject_kind = ? AND subject_id IN "+
			"(SELECT bulk FROM rule_revisions WHERE rule_id = ? AND bulk IS NOT NULL))",
			subjectRule, q.SubjectID, audit.SubjectBulk, q.SubjectID)
	case q.SubjectKind == subjectRule:
		tx = tx.Where("subject_kind IN ?", []string{subjectRule, audit.SubjectBulk})
	case q.SubjectKind != "":
		tx = tx.Where("subject_kind = ?", q.SubjectKind)
	}
	if q.SubjectKind != subjectRule && q.SubjectID != 0 {
		tx = tx.Where("subject_id = ?", q.SubjectID)
	}
	if q.Subject != "" {
		begins := beginning(q.Subject)
		tx = tx.Where("(subject_name LIKE ? ESCAPE '!' OR subject_kind = ? AND EXISTS (SELECT 1 FROM rule_revisions "+
			"WHERE bulk = audit_log.subject_id AND rule ->> 'name' LIKE ? ESCAPE '!'))", begins, audit.SubjectBulk, begins)
	}
	return tx
}

var likeSigns = strings.NewReplacer("!", "!!", "%", "!%", "_", "!_")

// beginning returns the LIKE pattern of texts that start with a text.
func beginning(text string) string { return likeSigns.Replace(text) + "%" }
