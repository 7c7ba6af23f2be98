package database

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

// gatewayRow is a row of gateways.
type gatewayRow struct {
	ProfileID int64    `gorm:"column:profile_id;primaryKey;autoIncrement:false"`
	TokenID   *int64   `gorm:"column:token_id"`
	Inputs    document `gorm:"column:inputs"`
	AskedAt   *rowTime `gorm:"column:asked_at"`
}

// TableName implements gorm's Tabler.
func (gatewayRow) TableName() string { return "gateways" }

// connectDetails holds the details of an audit entry about a profile and its token.
type connectDetails struct {
	ruleDetails
	Scopes    []access.Scope `json:"scopes"`
	ExpiresAt *time.Time     `json:"expires_at"`
}

// Connect stores the profile of a gateway, and its token unless t is nil, in one transaction with one audit entry. The
// caller has created the token's secret with access.NewSecret. inputs become the Inputs of a profile.Connection.
// Errors: *ValidationError, ErrNameTaken (another profile), *TakenError (a valid token), ErrUnavailable.
func (d *DB) Connect(ctx context.Context, actor rules.Actor, p profile.Profile, t *access.Token,
	inputs map[string]string) error {
	p.Normalize()
	if err := profiles.kind.Validate(&p); err != nil {
		return err
	}
	if t != nil {
		if err := validateToken(t); err != nil {
			return err
		}
	}
	text, err := json.Marshal(inputs)
	if err != nil {
		return err
	}
	return d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		row, err := profiles.add(c, &p)
		if err != nil {
			return err
		}
		if err := profiles.checkWhole(c); err != nil {
			return err
		}
		link := gatewayRow{ProfileID: row.ID, Inputs: document(text)}
		var made *tokenRow
		if t != nil {
			if made, err = c.connectToken(t); err != nil {
				return err
			}
			link.TokenID = &made.ID
		}
		if err := c.tx.Create(&link).Error; err != nil {
			return err
		}
		is := profiles.object(&row)
		return c.recordConnection(actionConnect, &row.Head, profiles.kind.Diff(nil, &is), made)
	})
}

// connectToken stores a token in a change of the rules. Such a change raises the version of the rules first, so two of
// them cannot wait for each other.
func (c *change) connectToken(t *access.Token) (*tokenRow, error) {
	if _, err := bump(c.tx, areaTokens); err != nil {
		return nil, err
	}
	var taken int64
	err := c.tx.Model(&tokenRow{}).Where("name = ? AND revoked_at IS NULL AND replaced_at IS NULL", t.Name).
		Count(&taken).Error
	if err != nil {
		return nil, err
	}
	if taken > 0 {
		return nil, &rules.TakenError{Problem: field.Problem{Field: "name", Message: "is already used by an active token"}}
	}
	row, err := c.addToken(t)
	return &row, err
}

// recordConnection records the audit entry of a profile and its token, which is nil for none.
func (c *change) recordConnection(action string, head *Head, changes []field.Change, made *tokenRow) error {
	details := connectDetails{ruleDetails: ruleDetails{Version: head.Version, Changes: changes}}
	if made != nil {
		t, link := made.token(), field.Change{Field: "token"}
		if action == actionConnect {
			link.New = t.Name
		} else {
			link.Old = t.Name
		}
		details.Changes = append(details.Changes, link)
		details.Scopes, details.ExpiresAt = t.Scopes, t.ExpiresAt
	}
	return c.record(action, profiles.kind.Noun, head.ID, head.Name, details)
}

// Disconnect deletes a profile that Connect stored and revokes its token, in one transaction with one audit entry.
// Errors: ErrNotFound (Connect stored no such profile), profile.ErrAsked, ErrUnavailable.
func (d *DB) Disconnect(ctx context.Context, actor rules.Actor, name string) error {
	if !storable(name) {
		return rules.ErrNotFound
	}
	return d.change(ctx, actor, areaRules, d.callTimeout, func(c *change) error {
		link, err := linkOf(c.tx, name)
		switch {
		case err != nil:
			return err
		case link.AskedAt != nil:
			return profile.ErrAsked
		}
		row, err := profiles.drop(c, name, 0)
		if err != nil {
			return err
		}
		token, err := c.revokeLinked(link.TokenID)
		if err != nil {
			return err
		}
		was := profiles.object(&row)
		return c.recordConnection(actionDisconnect, &row.Head, profiles.kind.Diff(&was, nil), token)
	})
}

// revokeLinked revokes a token, and the tokens that it was rotated to, in a change of the rules; see connectToken. It
// returns nil if all of them were revoked before.
func (c *change) revokeLinked(id *int64) (*tokenRow, error) {
	if id == nil {
		return nil, nil //nolint:nilnil // no token is no error
	}
	if _, err := bump(c.tx, areaTokens); err != nil {
		return nil, err
	}
	var row tokenRow
	err := c.tx.Take(&row, *id).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return nil, nil //nolint:nilnil // somebody has deleted it by hand
	}
	if err != nil {
		return nil, err
	}
	ids, err := c.rotatedTo(row)
	if err != nil {
		return nil, err
	}
	res := c.tx.Model(&tokenRow{}).Where("revoked_at IS NULL AND id IN ?", ids).UpdateColumn("revoked_at", c.at)
	if res.Error != nil || res.RowsAffected == 0 {
		return nil, res.Error
	}
	return &row, nil
}

// rotatedTo returns the ids of a token and of those that it was rotated to. A rotation makes the new token at the time
// at which it replaces the old one. A token of the same name that somebody made later is none of them.
func (c *change) rotatedTo(row tokenRow) ([]int64, error) {
	ids := []int64{row.ID}
	for row.ReplacedAt != nil {
		var next []tokenRow
		err := c.tx.Where("name = ? AND id > ? AND created_at = ?", row.Name, row.ID, row.ReplacedAt).Order("id").
			Limit(1).Find(&next).Error
		if err != nil || len(next) == 0 {
			return ids, err
		}
		row = next[0]
		ids = append(ids, row.ID)
	}
	return ids, nil
}

// linkOf reads the row of a profile's name.
func linkOf(tx *gorm.DB, name string) (row gatewayRow, err error) {
	err = tx.Where("profile_id = (SELECT id FROM profiles WHERE name = ?)", name).Take(&row).Error
	if isNotFound(err) {
		return row, rules.ErrNotFound
	}
	return row, err
}

// Connection returns what Connect stored with a profile. Errors: ErrNotFound (there is no such profile, or it was made
// otherwise), ErrUnavailable.
func (d *DB) Connection(ctx context.Context, name string) (profile.Connection, error) {
	if !storable(name) {
		return profile.Connection{}, rules.ErrNotFound
	}
	var row gatewayRow
	err := d.readIn(ctx, d.callTimeout, func(tx *gorm.DB) (err error) {
		row, err = linkOf(tx, name)
		return err
	})
	if err != nil {
		return profile.Connection{}, err
	}
	c := profile.Connection{AskedAt: row.AskedAt.optional()}
	if row.TokenID != nil {
		c.TokenID = *row.TokenID
	}
	_ = json.Unmarshal([]byte(row.Inputs), &c.Inputs) // damaged by hand: the page then has its defaults
	return c, nil
}

// NoteAsked notes that gateways have asked with these profiles. Only the first note of a profile that Connect stored
// counts. It changes no version. On a read replica it does nothing.
func (d *DB) NoteAsked(ctx context.Context, names []string, at time.Time) error {
	if d.Replica() || len(names) == 0 {
		return nil
	}
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return tx.Model(&gatewayRow{}).
			Where("asked_at IS NULL AND profile_id IN (SELECT id FROM profiles WHERE name IN ?)", names).
			UpdateColumn("asked_at", newRowTime(at)).Error
	})
}
