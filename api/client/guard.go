package client

import (
	"errors"
	"time"
)

// Guard enforces a LocalLimit in the memory of this process, whether the service is available or not. A program asks it
// before the service, so that a flood costs no calls. It is safe for concurrent use.
type Guard struct{ local *localLimiter }

// NewGuard returns a Guard of limit. An error names what is wrong with the limit.
func NewGuard(limit *LocalLimit) (*Guard, error) {
	if limit == nil {
		return nil, errors.New("a Guard requires a LocalLimit")
	}
	local, err := newLocalLimiter(limit, time.Now) //nolint:forbidigo // the client runs in the programs of others
	if err != nil {
		return nil, err
	}
	return &Guard{local: local}, nil
}

// Deny takes the weight of a check from the bucket of its key. It returns nil if the weight fits, and otherwise the
// answer for the client: a denial with status 429, ByClient and an empty Degraded. A denied check spends nothing.
func (g *Guard) Deny(q *Check) *Answer {
	d := g.local.take(q, weightOf(q))
	if d.Allowed {
		return nil
	}
	a := &Answer{ByClient: true, Limits: []LimitAnswer{}, Headers: map[string]string{}}
	g.local.describe(&d, a)
	return a
}
