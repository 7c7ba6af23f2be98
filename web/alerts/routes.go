// Package alerts shows the alerts that are active and those that were, and the webhooks that they are sent to.
package alerts

import (
	"context"
	"net/http"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/web/kit"
)

// Deps is what the area needs besides the kit. Every field is required.
type Deps struct {
	Board    Board
	Events   Events
	Webhooks Webhooks
}

// Board knows the active alerts from memory.
type Board interface {
	// Active returns the alerts that are on: first those of all nodes, then those of rules, then those of keys, each
	// newest first. Callers must not change them.
	Active() []alerts.Event
	// Since is when they were last read from the rules database, zero for never.
	Since() time.Time
}

// Events has the alerts of the last weeks.
type Events interface {
	// AlertEvents returns up to limit events before an ID (0: from the newest), newest first. Errors wrap
	// rules.ErrUnavailable.
	AlertEvents(ctx context.Context, before int64, limit int) ([]alerts.Event, error)
}

// Webhooks stores webhooks and sends to them. Errors are those of rules.Store.
type Webhooks interface {
	rules.Store[alerts.Webhook]
	// Rotate returns the webhook with its new secret.
	Rotate(ctx context.Context, actor rules.Actor, name string, ifVersion int64) (alerts.Webhook, error)
	// Test sends a message once and returns what became of it.
	Test(ctx context.Context, name string) (alerts.Delivery, error)
	// Deliveries returns up to limit deliveries before an ID (0: from the newest), newest first.
	Deliveries(ctx context.Context, name string, before int64, limit int) ([]alerts.Delivery, error)
	// Statuses returns how the deliveries of each webhook go, by its ID.
	Statuses(ctx context.Context) (map[int64]alerts.WebhookStatus, error)
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Deps
}

const pathWebhooks = kit.PathAlerts + "/webhooks"

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const admin, one = access.RoleAdmin, pathWebhooks + "/:name"
	return append(kit.ObjectRoutes(pathWebhooks, admin, p.objects), []kit.Route{
		{Method: http.MethodGet, Path: kit.PathAlerts, Role: access.RoleViewer, Handle: p.list},
		{Method: http.MethodGet, Path: pathWebhooks, Role: admin, Handle: p.listWebhooks},
		{Method: http.MethodGet, Path: one, Role: admin, Handle: p.webhook},
		{Method: http.MethodPost, Path: one + "/test", Role: admin, Handle: p.test},
		{Method: http.MethodPost, Path: one + "/rotate", Role: admin, Reauth: rotates, Handle: kit.Posted(p.rotate)},
	}...)
}
