package database

import (
	"fmt"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

// profileRow is a row of profiles.
type profileRow struct {
	Head
	// Settings is what people write but the name and the description.
	Settings document `gorm:"column:settings"`
}

// TableName implements gorm's Tabler.
func (profileRow) TableName() string { return "profiles" }

var profiles = objects[profileRow, profile.Profile]{
	kind: rules.ProfileKind, area: areaRules,
	head: func(row *profileRow) *Head { return &row.Head },
	object: func(row *profileRow) profile.Profile {
		p := profile.Profile{
			Name: row.Name, Description: row.Description,
			Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
		}
		_ = p.UnmarshalPolicies([]byte(row.Settings)) // validation says what is wrong
		return p
	},
	put: func(row *profileRow, p *profile.Profile) error {
		settings, err := p.MarshalPolicies()
		row.Name, row.Description, row.Settings = p.Name, p.Description, document(settings)
		return err
	},
	creating: func(c *change) error {
		var n int64
		if err := c.tx.Model(&profileRow{}).Count(&n).Error; err != nil {
			return err
		}
		if n >= profile.MaxProfiles {
			return &field.ValidationError{Fields: []field.Problem{{Field: "name",
				Message: fmt.Sprintf("cannot be added: there are already %d profiles", n)}}}
		}
		return nil
	},
	deleting: func(c *change, head *Head) error {
		return c.tx.Where("profile_id = ?", head.ID).Delete(&gatewayRow{}).Error
	},
}

// Profiles stores profiles.
func (d *DB) Profiles() rules.Store[profile.Profile] {
	return stored[profileRow, profile.Profile]{&profiles, d}
}
