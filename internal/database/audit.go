package database

import (
	"context"
	"encoding/json"
	"time"

	"gorm.io/gorm"

	"sluice/rules"
)

// AuditEntry says who changed what, and when.
type AuditEntry struct {
	ID     int64       `json:"id"`
	At     time.Time   `json:"at"`
	Actor  rules.Actor `json:"actor"`
	Action string      `json:"action"` // create, update, delete, rollback, promote, import, revoke
	// SubjectKind is rule, pool or token; SubjectName is its name at the time.
	SubjectKind string `json:"subject_kind"`
	SubjectID   int64  `json:"subject_id"`
	SubjectName string `json:"subject_name"`
	// Details is a JSON object: version and changes for a rule or pool, scopes and
	// expires_at for a token.
	Details json.RawMessage `json:"details"`
}

// AuditQuery selects entries. The zero value selects the newest of all.
type AuditQuery struct {
	SubjectKind string // rule, pool or token; empty for all
	SubjectID   int64  // 0 for all
	Limit       int    // 1 to 500; 0 means 50
	BeforeID    int64  // entries with a smaller id; 0 for the newest
}

// ListAudit gives entries, newest first.
func (d *DB) ListAudit(ctx context.Context, q AuditQuery) ([]AuditEntry, error) {
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
		if q.BeforeID > 0 {
			tx = tx.Where("id < ?", q.BeforeID)
		}
		return tx.Order("id DESC").Limit(min(limit, maxPageSize)).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	entries := make([]AuditEntry, len(rows))
	for i, row := range rows {
		entries[i] = AuditEntry{
			ID: row.ID, At: row.At.Time, Actor: rules.Actor{Kind: row.ActorKind, Name: row.ActorName},
			Action: row.Action, SubjectKind: row.SubjectKind, SubjectID: row.SubjectID, SubjectName: row.SubjectName,
			Details: json.RawMessage(row.Details),
		}
	}
	return entries, nil
}
