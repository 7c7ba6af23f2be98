package webtest

import (
	"net/url"
	"strings"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
)

// alertPages are the pages of alerts and webhooks.
func alertPages() []Shown {
	const viewer, admin = access.RoleViewer, access.RoleAdmin
	const hooks, silences = "/console/alerts/webhooks", "/console/alerts/silences"
	return []Shown{
		{Name: "alerts", About: "Alerts", Role: viewer, Path: "/console/alerts"},
		{Name: "alerts-none", About: "No alerts", Kind: Empty, Role: viewer, Path: "/console/alerts"},
		{Name: "alerts-many", About: "Alerts, many", Role: viewer, Path: "/console/alerts?before=2000",
			Prepare: func(w *World) {
				many := manyAlerts(2500)
				w.Alerts.On, w.Alerts.Past = many[:150], many
			}},
		{Name: "alerts-search", About: "Alerts, no match", Role: viewer, Path: "/console/alerts?kind=set_old&rule=none"},
		{Name: "alerts-failing", About: "Alerts, database unreachable", Kind: Failing, Role: viewer,
			Path: "/console/alerts", Prepare: func(w *World) { w.Alerts.Err = rules.ErrUnavailable }},
		{Name: "alerts-handled", About: "Alerts, one silenced and one acknowledged", Role: access.RoleEditor,
			Path: "/console/alerts", Prepare: Handle},
		{Name: "silences", About: "Silences", Role: access.RoleEditor, Path: silences, Prepare: Handle},
		{Name: "silences-none", About: "No silences", Kind: Empty, Role: viewer, Path: silences},
		{Name: "silence-new", About: "New silence of an active alert", Role: access.RoleEditor,
			Path: silences + "/new?alert=event-8"},
		{Name: "silence-errors", About: "New silence, invalid", Role: access.RoleEditor, Path: silences,
			Form: url.Values{"kind": {"none"}, "rule": {"A b"}, "reason": {""}, "lasts": {"1y"}}},
		{Name: "acknowledge", About: "Acknowledge an alert", Role: access.RoleEditor,
			Path: silences + "/new?acknowledges=event-9"},
		{Name: "acknowledge-gone", About: "Acknowledge an alert that is over", Role: access.RoleEditor,
			Path: silences + "/new?acknowledges=none"},
		{Name: "silence-edit", About: "Edit a silence", Role: access.RoleEditor, Path: silences + "/1/edit", Prepare: Handle},
		{Name: "views", About: "Saved views", Role: viewer, Path: "/console/views", Prepare: SaveSome},
		{Name: "views-none", About: "No saved views", Role: viewer, Path: "/console/views"},
		{Name: "rules-saved", About: "Rules with saved views", Role: access.RoleEditor,
			Path: "/console/rules?mode=enforce&page=1", Prepare: SaveSome},
		{Name: "webhooks", About: "Webhooks", Role: admin, Path: hooks},
		{Name: "webhooks-none", About: "No webhooks", Kind: Empty, Role: admin, Path: hooks},
		{Name: "webhooks-viewer", About: "Webhooks, as a viewer", Role: viewer, Path: hooks},
		{Name: "webhook-new", About: "New webhook", Role: admin, Path: hooks + "/new"},
		{Name: "webhook-errors", About: "New webhook, invalid", Role: admin, Path: hooks, Form: url.Values{
			"name": {"No Good"}, "url": {"ftp://nowhere"}, "denied_percent": {"200"}, "denied_per_second": {"many"},
			"rules": {"A b"}, "kinds": {"nothing"}}},
		{Name: "webhook-made", About: "New webhook, secret", Role: admin, Path: hooks, Form: url.Values{
			"name": {"ops"}, "url": {"https://hooks.example.com/x"}, "format": {"standard"}, "is_active": {"on"}}},
		{Name: "webhook-edit", About: "Edit a webhook", Role: admin, Path: hooks + "/chat/edit"},
		{Name: "webhook-conflict", About: "Edit a webhook, conflict", Role: admin, Path: hooks + "/chat",
			Form: url.Values{"version": {"1"}, "url": {"https://hooks.chat.example/new"}, "format": {"slack"},
				"denied_percent": {"60"}},
			Prepare: func(w *World) { w.Webhooks.Objects.List[0].Version = 2 }},
		{Name: "webhook", About: "Webhook", Role: admin, Path: hooks + "/chat"},
		{Name: "webhook-gone", About: "Webhook, disabled by its receiver", Role: admin, Path: hooks + "/old"},
		{Name: "webhook-many", About: "Webhook, 10,000 deliveries and long texts", Role: admin, Path: hooks + "/chat",
			Prepare: func(w *World) {
				ManyDeliveries(w, 10_000)
				long := &w.Webhooks.Sent[1][0]
				long.Error, long.State = strings.Repeat("a long error ", 20), alerts.DeliveryFailed
				long.Message.Body = []byte(`{"text":"` + strings.Repeat("long", 5000) + `"}`)
				w.Webhooks.Objects.List[0].Description = strings.Repeat("A long description. ", 20)
				w.Webhooks.Objects.List[0].URL = "https://" + strings.Repeat("long-host.", 20) + "example/x"
			}},
		{Name: "webhook-tested", About: "Webhook, test failed", Role: admin, Path: hooks + "/chat?test=6",
			Prepare: func(w *World) {
				hook := &w.Webhooks.Objects.List[0]
				failed := delivery(6, 0, alerts.DeliveryFailed, alerts.TypeTest, func(d *alerts.Delivery) {
					d.Status, d.Error = 0, "connection refused"
				})
				w.Webhooks.Sent[hook.ID] = append([]alerts.Delivery{failed}, w.Webhooks.Sent[hook.ID]...)
			}},
		{Name: "webhook-rotated", About: "Webhook, new secret", Role: admin, Path: hooks + "/chat/rotate",
			Form: url.Values{"version": {"1"}}},
	}
}
