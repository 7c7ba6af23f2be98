package alerts

import "time"

// WebhookStatus is the state of the deliveries of a webhook.
type WebhookStatus struct {
	// Waiting is the number of queued messages, and Oldest when the oldest of them was created; zero if there is none.
	Waiting int64
	Oldest  time.Time
	// Last is the message that was sent last, without its body; its ID is 0 if none was sent.
	Last Delivery
}
