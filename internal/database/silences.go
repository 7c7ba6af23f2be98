package database

import (
	"context"

	"gorm.io/gorm"

	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/field"
)

// subjectSilence is the subject of silences in the audit log.
const subjectSilence = "silence"

// silenceRow is a row of alert_silences. EndsAt is in ms since the epoch.
type silenceRow struct {
	ID           int64   `gorm:"column:id;primaryKey;autoIncrement"`
	Acknowledges string  `gorm:"column:acknowledges"`
	Kind         string  `gorm:"column:kind"`
	Rule         string  `gorm:"column:rule"`
	Key          string  `gorm:"column:key"`
	Level        string  `gorm:"column:level"`
	Reason       string  `gorm:"column:reason"`
	EndsAt       int64   `gorm:"column:ends_at"`
	CreatedBy    string  `gorm:"column:created_by"`
	Version      int64   `gorm:"column:version"`
	CreatedAt    rowTime `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt    rowTime `gorm:"column:updated_at;autoUpdateTime:false"`
}

// TableName implements gorm's Tabler.
func (silenceRow) TableName() string { return "alert_silences" }

func (r *silenceRow) silence() alerts.Silence {
	ends := instant(r.EndsAt)
	return alerts.Silence{ID: r.ID, Acknowledges: r.Acknowledges, Kind: r.Kind, Rule: r.Rule, Key: r.Key, Level: r.Level,
		Reason: r.Reason, EndsAt: &ends, By: r.CreatedBy, Version: r.Version, CreatedAt: r.CreatedAt.Time,
		UpdatedAt: r.UpdatedAt.Time}
}

// Silences returns all silences, also ended ones, the latest end first.
func (d *DB) Silences(ctx context.Context) ([]alerts.Silence, error) {
	var rows []silenceRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error {
		return tx.Order("ends_at DESC, id DESC").Limit(alerts.MaxSilences).Find(&rows).Error
	})
	if err != nil {
		return nil, err
	}
	out := make([]alerts.Silence, len(rows))
	for i := range rows {
		out[i] = rows[i].silence()
	}
	return out, nil
}

// Silence returns the silence with an id. Errors wrap rules.ErrNotFound or rules.ErrUnavailable.
func (d *DB) Silence(ctx context.Context, id int64) (alerts.Silence, error) {
	var row silenceRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) error { return tx.Take(&row, id).Error })
	if err != nil {
		return alerts.Silence{}, err
	}
	return row.silence(), nil
}

// CreateSilence stores a new silence by the actor. If MaxSilences are stored, it deletes the one that ended first; if
// none has ended, the error is alerts.ErrTooManySilences. Other errors: *field.ValidationError, rules.ErrUnavailable.
func (d *DB) CreateSilence(ctx context.Context, actor rules.Actor, s alerts.Silence) (alerts.Silence, error) {
	err := d.change(ctx, actor, areaWebhooks, d.callTimeout, func(c *change) error {
		s.Normalize()
		if err := s.Validate(c.at.Time); err != nil {
			return err
		}
		if err := c.roomForSilence(); err != nil {
			return err
		}
		row := silenceRow{Acknowledges: s.Acknowledges, Kind: s.Kind, Rule: s.Rule, Key: s.Key, Level: s.Level,
			Reason: s.Reason, EndsAt: s.EndsAt.UnixMilli(), CreatedBy: actor.Name, Version: 1, CreatedAt: c.at, UpdatedAt: c.at}
		if err := c.tx.Create(&row).Error; err != nil {
			return err
		}
		s = row.silence()
		return c.recordSilence(actionCreate, s.Version, nil, &s)
	})
	if err != nil {
		return alerts.Silence{}, err
	}
	return s, nil
}

// roomForSilence makes room for another silence, if it can: by deleting ended ones.
func (c *change) roomForSilence() error {
	var n int64
	if err := c.tx.Model(&silenceRow{}).Count(&n).Error; err != nil || n < alerts.MaxSilences {
		return err
	}
	var ended []int64
	err := c.tx.Model(&silenceRow{}).Where("ends_at <= ?", c.at.UnixMilli()).Order("ends_at, id").
		Limit(int(n)-alerts.MaxSilences+1).Pluck("id", &ended).Error
	if err != nil {
		return err
	}
	if n-int64(len(ended)) >= alerts.MaxSilences {
		return alerts.ErrTooManySilences
	}
	return c.tx.Delete(&silenceRow{}, ended).Error
}

// UpdateSilence gives the silence s.ID the reason and the end of s. If ifVersion is not 0 and not the stored version,
// the error is rules.ErrStale. Other errors: *field.ValidationError, also if s is about other alerts,
// rules.ErrNotFound, rules.ErrUnavailable.
func (d *DB) UpdateSilence(ctx context.Context, actor rules.Actor, s alerts.Silence,
	ifVersion int64) (alerts.Silence, error) {
	err := d.change(ctx, actor, areaWebhooks, d.callTimeout, func(c *change) error {
		row, err := c.lockedSilence(s.ID, ifVersion)
		if err != nil {
			return err
		}
		was := row.silence()
		s.Normalize()
		if !s.SameAlerts(&was) {
			return &field.ValidationError{Fields: []field.Problem{{Field: "kind",
				Message: "and the other members that select alerts cannot be changed; create another silence"}}}
		}
		if err := s.Validate(c.at.Time); err != nil {
			return err
		}
		row.Reason, row.EndsAt, row.Version, row.UpdatedAt = s.Reason, s.EndsAt.UnixMilli(), row.Version+1, c.at
		err = c.tx.Model(&silenceRow{}).Where("id = ?", row.ID).Select("reason", "ends_at", "version", "updated_at").
			UpdateColumns(&row).Error
		if err != nil {
			return err
		}
		s = row.silence()
		return c.recordSilence(actionUpdate, s.Version, &was, &s)
	})
	if err != nil {
		return alerts.Silence{}, err
	}
	return s, nil
}

// DeleteSilence ends a silence and removes it. Errors are those of UpdateSilence.
func (d *DB) DeleteSilence(ctx context.Context, actor rules.Actor, id, ifVersion int64) error {
	return d.change(ctx, actor, areaWebhooks, d.callTimeout, func(c *change) error {
		row, err := c.lockedSilence(id, ifVersion)
		if err != nil {
			return err
		}
		if err := c.tx.Delete(&silenceRow{}, id).Error; err != nil {
			return err
		}
		was := row.silence()
		return c.recordSilence(actionDelete, row.Version+1, &was, nil)
	})
}

// lockedSilence reads a silence within the change; see lockedRule.
func (c *change) lockedSilence(id, ifVersion int64) (row silenceRow, err error) {
	err = c.tx.Take(&row, id).Error
	if err == nil && ifVersion != 0 && ifVersion != row.Version {
		err = rules.ErrStale
	}
	return row, err
}

func (c *change) recordSilence(action string, version int64, was, is *alerts.Silence) error {
	of := is
	if of == nil {
		of = was
	}
	return c.record(action, subjectSilence, of.ID, of.Title(), ruleDetails{Version: version,
		Changes: alerts.DiffSilences(was, is), Reason: c.actor.Reason})
}
