package app

import (
	"context"
	"time"

	"sluice/api/envoy/quota"
	"sluice/internal/fleet"
)

// quotaBoard is the board in Redis of what proxies demand.
type quotaBoard struct {
	board *fleet.QuotaBoard
	now   func() time.Time
}

var _ quota.Board = (*quotaBoard)(nil)

// Exchange implements quota.Board.
func (b *quotaBoard) Exchange(ctx context.Context, key string, own quota.Demand, life int64) (quota.Demand, error) {
	holders, perSecond, err := b.board.Exchange(ctx, key, own.Holders, own.PerSecond, life, b.now())
	return quota.Demand{Holders: holders, PerSecond: perSecond}, err
}
