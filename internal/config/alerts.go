package config

import "time"

// Alerts says where alerts may be sent, and how often.
type Alerts struct {
	// WebhookAllow lists hosts, addresses and networks that webhooks may reach besides public addresses over https.
	WebhookAllow []string
	// AlertQuiet is the time after an alert in which another one about the same subject is only counted.
	AlertQuiet time.Duration
}
