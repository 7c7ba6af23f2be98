package database

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/internal/alerts"
)

// alertReportRow is a row of alert_reports.
type alertReportRow struct {
	ID     int64  `gorm:"column:id;primaryKey;autoIncrement"`
	UID    string `gorm:"column:uid"`
	Data   string `gorm:"column:data"`
	ReadAt int64  `gorm:"column:read_at"`
}

// TableName implements gorm's Tabler.
func (alertReportRow) TableName() string { return "alert_reports" }

// alertStateRow is a row of alert_states.
type alertStateRow struct {
	Subject string `gorm:"column:subject;primaryKey"`
	Data    string `gorm:"column:data"`
}

// TableName implements gorm's Tabler.
func (alertStateRow) TableName() string { return "alert_states" }

// alertEventRow is a row of alert_events. At is in ms since the epoch.
type alertEventRow struct {
	ID   int64  `gorm:"column:id;primaryKey;autoIncrement"`
	UID  string `gorm:"column:uid"`
	At   int64  `gorm:"column:at"`
	Kind string `gorm:"column:kind"`
	Data string `gorm:"column:data"`
}

// TableName implements gorm's Tabler.
func (alertEventRow) TableName() string { return "alert_events" }

const (
	// maxReports is how many reports wait to be read; beyond that the oldest are dropped.
	maxReports = 10_000
	// maxLease is longer than any lease, so that one which ends later was taken while a clock was wrong.
	maxLease = 10 * time.Minute
)

// HoldAlerts takes or renews the lease of alerts for a while, by the clock of the database, and reports whether holder
// has it. It fails to if another holder has it, and on a read replica.
func (d *DB) HoldAlerts(ctx context.Context, holder string, length time.Duration) (held bool, err error) {
	if d.Replica() {
		return false, nil
	}
	err = d.writeIn(ctx, func(tx *gorm.DB) error {
		now := d.nowMS()
		res := tx.Table("alert_lease").
			Where("id = 1 AND (holder = ? OR held_until <= "+now+" OR held_until > "+now+" + ?)", holder,
				maxLease.Milliseconds()).
			UpdateColumns(map[string]any{"holder": holder, "held_until": gorm.Expr(now+" + ?", length.Milliseconds())})
		held = res.RowsAffected > 0
		return res.Error
	})
	return held && err == nil, err
}

// ReleaseAlerts ends the lease of a holder, so that another node can take it at once.
func (d *DB) ReleaseAlerts(ctx context.Context, holder string) error {
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return tx.Table("alert_lease").Where("id = 1 AND holder = ?", holder).
			UpdateColumns(map[string]any{"holder": "", "held_until": 0}).Error
	})
}

// checkLease returns alerts.ErrLeaseLost unless holder has the lease now.
func (d *DB) checkLease(tx *gorm.DB, holder string) error {
	var n int64
	err := tx.Table("alert_lease").Where("id = 1 AND holder = ? AND held_until > "+d.nowMS(), holder).Count(&n).Error
	if err == nil && n == 0 {
		return alerts.ErrLeaseLost
	}
	return err
}

// lockLease is checkLease which keeps the lease from being taken until the transaction ends.
func (d *DB) lockLease(tx *gorm.DB, holder string) error {
	res := tx.Table("alert_lease").Where("id = 1 AND holder = ? AND held_until > "+d.nowMS(), holder).
		UpdateColumn("holder", holder)
	if res.Error == nil && res.RowsAffected == 0 {
		return alerts.ErrLeaseLost
	}
	return res.Error
}

// AddAlertReports stores reports. It ignores a report whose UID is known. A UID stays known for an hour after its
// report was read.
func (d *DB) AddAlertReports(ctx context.Context, reports []alerts.Report) error {
	if len(reports) == 0 {
		return nil
	}
	rows := make([]alertReportRow, len(reports))
	for i, r := range reports {
		rows[i] = alertReportRow{UID: r.UID, Data: string(r.Data)}
	}
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		if err := insertRows(tx.Clauses(clause.OnConflict{DoNothing: true}), rows); err != nil {
			return err
		}
		old := tx.Model(&alertReportRow{}).Select("id").Where("read_at = 0").Order("id DESC").Limit(cleanBatch).
			Offset(maxReports)
		return tx.Where("id IN (SELECT id FROM (?) AS old)", old).Delete(&alertReportRow{}).Error
	})
}

// AlertReports returns up to limit reports that were not read yet, oldest first.
func (d *DB) AlertReports(ctx context.Context, limit int) ([]alerts.Report, error) {
	var rows []alertReportRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Where("read_at = 0").Order("id").Limit(limit).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]alerts.Report, len(rows))
	for i, r := range rows {
		out[i] = alerts.Report{ID: r.ID, UID: r.UID, Data: []byte(r.Data)}
	}
	return out, nil
}

// AlertStates returns the states of all subjects, by the subject.
func (d *DB) AlertStates(ctx context.Context) ([]alerts.State, error) {
	var rows []alertStateRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Order("subject").Find(&rows).Error })
	if err != nil {
		return nil, err
	}
	out := make([]alerts.State, len(rows))
	for i, r := range rows {
		out[i] = alerts.State{Subject: r.Subject, Data: []byte(r.Data)}
	}
	return out, nil
}

// SaveAlerts stores the result of an evaluation in one transaction, if holder has the lease. Otherwise it stores
// nothing and the error is alerts.ErrLeaseLost. Events and messages that are already stored stay unchanged.
func (d *DB) SaveAlerts(ctx context.Context, holder string, c *alerts.Changes) error {
	events := make([]alertEventRow, len(c.Events))
	for i := range c.Events {
		e := &c.Events[i]
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		events[i] = alertEventRow{UID: e.UID, At: e.At.UnixMilli(), Kind: string(e.Kind), Data: string(data)}
	}
	messages := make([]deliveryRow, len(c.Messages))
	for i := range c.Messages {
		messages[i] = rowOfMessage(&c.Messages[i])
	}
	states, over := splitStates(c.States)
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		if err := d.lockLease(tx, holder); err != nil {
			return err
		}
		if err := insertRows(tx.Clauses(clause.OnConflict{DoNothing: true}), events); err != nil {
			return err
		}
		if err := insertRows(tx.Clauses(clause.OnConflict{DoNothing: true}), messages); err != nil {
			return err
		}
		if err := insertRows(tx.Clauses(clause.OnConflict{UpdateAll: true}), states); err != nil {
			return err
		}
		for some := range slices.Chunk(over, insertBatch) {
			if err := tx.Where("subject IN ?", some).Delete(&alertStateRow{}).Error; err != nil {
				return err
			}
		}
		for some := range slices.Chunk(c.Read, insertBatch) {
			err := tx.Model(&alertReportRow{}).Where("id IN ? AND read_at = 0", some).
				UpdateColumn("read_at", gorm.Expr(d.nowMS())).Error
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// splitStates returns the rows to store and the subjects to delete. Of two states of one subject the last one counts.
func splitStates(list []alerts.State) (rows []alertStateRow, over []string) {
	last := make(map[string]int, len(list))
	for i, s := range list {
		last[s.Subject] = i
	}
	for i, s := range list {
		switch {
		case last[s.Subject] != i:
		case s.Data == nil:
			over = append(over, s.Subject)
		default:
			rows = append(rows, alertStateRow{Subject: s.Subject, Data: string(s.Data)})
		}
	}
	return rows, over
}

// AlertEvents returns up to limit events before an id (0: from the newest), newest first.
func (d *DB) AlertEvents(ctx context.Context, before int64, limit int) ([]alerts.Event, error) {
	var rows []alertEventRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		if before > 0 {
			tx = tx.Where("id < ?", before)
		}
		return tx.Order("id DESC").Limit(limit).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]alerts.Event, len(rows))
	for i := range rows {
		// If the data of an event was damaged by hand, its columns are still used.
		e, row := &out[i], &rows[i]
		_ = json.Unmarshal([]byte(row.Data), e)
		e.ID, e.UID, e.At, e.Kind = row.ID, row.UID, instant(row.At), alerts.Kind(row.Kind)
	}
	return out, nil
}
