package deliver

import (
	"context"
	"sync"
	"time"

	"sluice/internal/alerts"
	"sluice/rules"
)

// Store stores webhooks, their secrets, and their deliveries. It returns the same errors as rules.Store.
type Store interface {
	Webhooks() rules.Store[alerts.Webhook]
	RotateWebhook(ctx context.Context, actor rules.Actor, name, secret string, ifVersion int64) (alerts.Webhook, error)
	// WebhookSecrets returns the secrets that sign messages now, the newest first.
	WebhookSecrets(ctx context.Context, id int64) ([]string, error)
	// AddAttempted stores a message that was sent once and is not sent again.
	AddAttempted(ctx context.Context, m alerts.Message, a alerts.Attempt) (alerts.Delivery, error)
	// ListDeliveries returns up to limit deliveries of a webhook before an id (0: from the newest), newest first.
	ListDeliveries(ctx context.Context, webhook, before int64, limit int) ([]alerts.Delivery, error)
	// WebhookStatuses returns the delivery status of each webhook, by its id, without webhooks that have no deliveries.
	WebhookStatuses(ctx context.Context) (map[int64]alerts.WebhookStatus, error)
}

// Webhooks manages webhooks for both the API and the console. It is a rules.Store that also checks the addresses, and
// is safe for concurrent use.
type Webhooks struct {
	rules.Store[alerts.Webhook]
	store  Store
	guard  *Guard
	sender *Sender
	now    func() time.Time

	mu sync.Mutex
	// tests are the webhooks that are tested now, or were less than alerts.TestPause ago.
	tests map[int64]*test
}

// test is one of a webhook.
type test struct {
	began time.Time
	ended bool
}

// NewWebhooks creates a Webhooks.
func NewWebhooks(store Store, guard *Guard, sender *Sender, now func() time.Time) *Webhooks {
	return &Webhooks{Store: store.Webhooks(), store: store, guard: guard, sender: sender, now: now,
		tests: map[int64]*test{}}
}

// Create stores a new webhook with a new secret. Only the returned one has it.
func (s *Webhooks) Create(ctx context.Context, actor rules.Actor, w alerts.Webhook) (alerts.Webhook, error) {
	if err := s.guard.Check(ctx, w.URL); err != nil {
		return alerts.Webhook{}, err
	}
	secret := alerts.NewSecret()
	w.Secret = secret
	stored, err := s.Store.Create(ctx, actor, w)
	if err != nil {
		return alerts.Webhook{}, err
	}
	stored.Secret = secret
	return stored, nil
}

// Update implements rules.Store. The secret stays. The address of a webhook that is not active is not checked, so that
// people can disable one that leads astray by now.
func (s *Webhooks) Update(ctx context.Context, actor rules.Actor, w alerts.Webhook, ifVersion int64) (alerts.Webhook,
	error) {
	if w.IsActive {
		if err := s.guard.Check(ctx, w.URL); err != nil {
			return alerts.Webhook{}, err
		}
	}
	w.Secret = ""
	return s.Store.Update(ctx, actor, w, ifVersion)
}

// Rotate gives a webhook a new secret. Only the returned webhook contains it. For a day messages are also signed with
// the previous secret. Rotate returns the same errors as Update.
func (s *Webhooks) Rotate(ctx context.Context, actor rules.Actor, name string, ifVersion int64) (alerts.Webhook,
	error) {
	secret := alerts.NewSecret()
	w, err := s.store.RotateWebhook(ctx, actor, name, secret, ifVersion)
	if err != nil {
		return alerts.Webhook{}, err
	}
	w.Secret = secret
	return w, nil
}

// Test sends a message of the type test now, once, also to a webhook that is not active. The error is
// alerts.ErrTestTooSoon while another test of it is under way on this node, or has just ended.
func (s *Webhooks) Test(ctx context.Context, name string) (alerts.Delivery, error) {
	w, err := s.Get(ctx, name)
	if err != nil {
		return alerts.Delivery{}, err
	}
	end, free := s.beginTest(w.ID)
	if !free {
		return alerts.Delivery{}, alerts.ErrTestTooSoon
	}
	defer end()
	secrets, err := s.store.WebhookSecrets(ctx, w.ID)
	if err != nil {
		return alerts.Delivery{}, err
	}
	m := alerts.TestMessage(&w, s.now())
	return s.store.AddAttempted(ctx, m, s.sender.Send(ctx, w.URL, secrets, &m))
}

// beginTest reports whether a webhook may be tested now. If so, end must be called.
func (s *Webhooks) beginTest(id int64) (end func(), free bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for other, t := range s.tests {
		if t.ended && now.Sub(t.began).Abs() >= alerts.TestPause {
			delete(s.tests, other)
		}
	}
	if s.tests[id] != nil {
		return nil, false
	}
	t := &test{began: now}
	s.tests[id] = t
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		t.ended = true
	}, true
}

// Deliveries returns up to limit deliveries of a webhook before an id (0: from the newest), newest first.
func (s *Webhooks) Deliveries(ctx context.Context, name string, before int64, limit int) ([]alerts.Delivery, error) {
	w, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.store.ListDeliveries(ctx, w.ID, before, limit)
}

// Statuses returns how the deliveries of each webhook go, by its id, without webhooks that have none.
func (s *Webhooks) Statuses(ctx context.Context) (map[int64]alerts.WebhookStatus, error) {
	return s.store.WebhookStatuses(ctx)
}
