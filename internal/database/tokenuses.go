package database

import (
	"cmp"
	"context"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"sluice/internal/access"
)

// tokenUseRow is a row of token_uses.
type tokenUseRow struct {
	TokenID  int64  `gorm:"column:token_id;primaryKey;autoIncrement:false"`
	UsedAt   int64  `gorm:"column:used_at;autoUpdateTime:false"` // ms since the epoch
	Endpoint string `gorm:"column:endpoint"`
}

// TableName implements gorm's Tabler.
func (tokenUseRow) TableName() string { return "token_uses" }

// WriteTokenUses stores when tokens were last used, each at most once. A later use that another node has stored stays.
// It changes no version and has no audit entry. Errors: ErrUnavailable, *rules.ReplicaError.
func (d *DB) WriteTokenUses(ctx context.Context, uses []access.Use) error {
	rows := make([]tokenUseRow, len(uses))
	for i := range uses {
		rows[i] = tokenUseRow{TokenID: uses[i].Token, UsedAt: uses[i].At.UnixMilli(), Endpoint: uses[i].Endpoint}
	}
	// Nodes that write the same tokens at once must not wait for each other in a circle.
	slices.SortFunc(rows, func(a, b tokenUseRow) int { return cmp.Compare(a.TokenID, b.TokenID) })
	return d.writeIn(ctx, func(tx *gorm.DB) error {
		return insertRows(tx.Clauses(clause.OnConflict{
			Columns:   []clause.Column{{Name: "token_id"}},
			DoUpdates: clause.AssignmentColumns([]string{"used_at", "endpoint"}),
			Where:     clause.Where{Exprs: []clause.Expression{gorm.Expr("token_uses.used_at < excluded.used_at")}},
		}), rows)
	})
}
