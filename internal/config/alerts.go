package config

import "sluice/internal/alerts"

// Alerts says where alerts may be sent.
type Alerts struct {
	WebhookAllow []string `name:"webhook-allow" env:"SLUICE_WEBHOOK_ALLOW" placeholder:"LIST" help:"Hosts, addresses and networks that webhooks may reach besides public addresses over https, as in hooks.corp.example,10.1.0.0/16. Those may be reached over http too. Empty: none."`
}

func (a *Alerts) check(c *checker) {
	if _, err := alerts.ParseAllowed(a.WebhookAllow); err != nil {
		c.fail("webhook-allow", "SLUICE_WEBHOOK_ALLOW", "%s", err)
	}
}
