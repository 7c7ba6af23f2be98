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
	Silences Silences
}

// Board knows the active alerts from memory.
type Board interface {
	// Active returns the alerts that are on, with what silences and acknowledges them: first those of all nodes, then
	// those of rules, then those of keys, each newest first. Callers must not change them.
	Active() []alerts.Event
	// Waiting is how many of them nobody has acknowledged or silenced.
	Waiting() int
	// Refresh reads them now. If that fails, they stay as they were.
	Refresh(ctx context.Context)
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

// Silences stores silences and acknowledgements. Errors are those of rules.Store.
type Silences interface {
	// Silences returns all of them, also ended ones, the latest end first.
	Silences(ctx context.Context) ([]alerts.Silence, error)
	Silence(ctx context.Context, id int64) (alerts.Silence, error)
	CreateSilence(ctx context.Context, actor rules.Actor, s alerts.Silence) (alerts.Silence, error)
	// UpdateSilence stores another reason and end.
	UpdateSilence(ctx context.Context, actor rules.Actor, s alerts.Silence, ifVersion int64) (alerts.Silence, error)
	DeleteSilence(ctx context.Context, actor rules.Actor, id, ifVersion int64) error
}

// Pages are the pages of the area.
type Pages struct {
	*kit.Kit
	Deps
}

const (
	pathWebhooks = kit.PathAlerts + "/webhooks"
	pathSilences = kit.PathAlerts + "/silences"
)

// Routes are the area's.
func (p *Pages) Routes() []kit.Route {
	const admin, one = access.RoleAdmin, pathWebhooks + "/:name"
	const editor, silence = access.RoleEditor, pathSilences + "/:id"
	return append(kit.ObjectRoutes(pathWebhooks, admin, p.objects), []kit.Route{
		{Method: http.MethodGet, Path: kit.PathAlerts, Role: access.RoleViewer, Handle: p.list},
		{Method: http.MethodGet, Path: pathSilences, Role: access.RoleViewer, Handle: p.listSilences},
		{Method: http.MethodPost, Path: pathSilences, Role: editor, Handle: kit.Posted(p.saveSilence)},
		{Method: http.MethodGet, Path: pathSilences + "/new", Role: editor, Form: true, Handle: p.newSilence},
		{Method: http.MethodGet, Path: silence + "/edit", Role: editor, Form: true, Handle: p.editSilence},
		{Method: http.MethodPost, Path: silence, Role: editor, Handle: kit.Posted(p.saveSilence)},
		{Method: http.MethodPost, Path: silence + "/end", Role: editor, Handle: kit.Posted(p.endSilence)},
		{Method: http.MethodGet, Path: pathWebhooks, Role: admin, Handle: p.listWebhooks},
		{Method: http.MethodGet, Path: one, Role: admin, Handle: p.webhook},
		{Method: http.MethodPost, Path: one + "/test", Role: admin, Handle: p.test},
		{Method: http.MethodPost, Path: one + "/rotate", Role: admin, Reauth: rotates, Handle: kit.Posted(p.rotate)},
	}...)
}
