package config

import (
	"time"

	"sluice/internal/alerts"
)

// Alerts says where alerts may be sent, and how often.
type Alerts struct {
	WebhookAllow []string `name:"webhook-allow" env:"SLUICE_WEBHOOK_ALLOW" placeholder:"LIST" help:"Hosts, addresses and networks that webhooks may reach besides public addresses over https, as in hooks.corp.example,10.1.0.0/16. Those may be reached over http too. Empty: none."`

	AlertQuiet time.Duration `name:"alert-quiet" env:"SLUICE_ALERT_QUIET" default:"15m" placeholder:"TIME" help:"Time after an alert in which further alerts about the same subject are only counted. The next one says how many. 1m to 24h."`
}

func (a *Alerts) check(c *checker) {
	c.within("alert-quiet", "SLUICE_ALERT_QUIET", a.AlertQuiet, time.Minute, 24*time.Hour)
	if _, err := alerts.ParseAllowed(a.WebhookAllow); err != nil {
		c.fail("webhook-allow", "SLUICE_WEBHOOK_ALLOW", "%s", err)
	}
}
