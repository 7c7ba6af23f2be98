package app

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/api/decide"
	"sluice/api/envoy"
	"sluice/api/envoy/quota"
	"sluice/internal/fleet"
	"sluice/limiter"
)

// quotaBoard is the board in Redis of what proxies demand.
type quotaBoard struct {
	board *fleet.QuotaBoard
	now   func() time.Time
}

var _ quota.Board = (*quotaBoard)(nil)

// Exchange implements quota.Board.
func (b *quotaBoard) Exchange(ctx context.Context, key string, own quota.Demand, life int64) (quota.Demand, error) {
	others, err := b.board.Exchange(ctx, key, fleet.QuotaDemand(own), life, b.now())
	return quota.Demand(others), err
}

// Others implements quota.Board.
func (b *quotaBoard) Others(ctx context.Context, key string) (quota.Demand, error) {
	others, err := b.board.Others(ctx, key, b.now())
	return quota.Demand(others), err
}

// quotaHolders says who holds units, once there is a server for Envoy.
type quotaHolders struct{ server atomic.Pointer[envoy.Server] }

func (h *quotaHolders) held(ctx context.Context, key limiter.Key) []decide.Held {
	if s := h.server.Load(); s != nil {
		return s.Held(ctx, key)
	}
	return nil
}
