package database

import (
	"context"
	"fmt"

	"sluice/rules"
)

// profileRow is a row of profiles.
type profileRow struct {
	Head
	// Settings is what people write but the name and the description.
	Settings document `gorm:"column:settings"`
}

// TableName implements gorm's Tabler.
func (profileRow) TableName() string { return "profiles" }

var profiles = objects[profileRow, rules.Profile]{
	subject: subjectProfile,
	head:    func(row *profileRow) *Head { return &row.Head },
	name:    func(p *rules.Profile) string { return p.Name },
	version: func(p *rules.Profile) int64 { return p.Version },
	object: func(row *profileRow) rules.Profile {
		p := rules.Profile{
			Name: row.Name, Description: row.Description,
			Version: row.Version, CreatedAt: row.CreatedAt.Time, UpdatedAt: row.UpdatedAt.Time,
		}
		_ = p.UnmarshalPolicies([]byte(row.Settings)) // validation says what is wrong
		return p
	},
	put: func(row *profileRow, p *rules.Profile) error {
		settings, err := p.MarshalPolicies()
		row.Name, row.Description, row.Settings = p.Name, p.Description, document(settings)
		return err
	},
	valid: rules.ValidateProfile,
	diff:  rules.DiffProfile,
	creating: func(c *change) error {
		var n int64
		if err := c.tx.Model(&profileRow{}).Count(&n).Error; err != nil {
			return err
		}
		if n >= rules.MaxProfiles {
			return &rules.ValidationError{Fields: []rules.FieldError{{Field: "name",
				Message: fmt.Sprintf("cannot be added: there are already %d profiles", n)}}}
		}
		return nil
	},
	deleting: func(*change, *Head) error { return nil },
	whole:    rules.DistinctDomains,
}

// ListProfiles returns every profile ordered by name.
func (d *DB) ListProfiles(ctx context.Context) ([]rules.Profile, error) { return profiles.list(ctx, d) }

// GetProfile returns the profile with a name, or ErrNotFound.
func (d *DB) GetProfile(ctx context.Context, name string) (rules.Profile, error) {
	return profiles.get(ctx, d, name)
}

// CreateProfile is CreatePool for profiles.
func (d *DB) CreateProfile(ctx context.Context, actor rules.Actor, p rules.Profile) (rules.Profile, error) {
	return profiles.create(ctx, d, actor, p)
}

// UpdateProfile is UpdatePool for profiles.
func (d *DB) UpdateProfile(ctx context.Context, actor rules.Actor, p rules.Profile,
	ifVersion int64) (rules.Profile, error) {
	return profiles.update(ctx, d, actor, p, ifVersion)
}

// DeleteProfile deletes a profile. Errors: ErrNotFound, ErrStale, ErrUnavailable.
func (d *DB) DeleteProfile(ctx context.Context, actor rules.Actor, name string, ifVersion int64) error {
	return profiles.delete(ctx, d, actor, name, ifVersion)
}
