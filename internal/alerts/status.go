package alerts

import "time"

// WebhookStatus is how the deliveries of a webhook go.
type WebhookStatus struct {
	// Waiting is the number of messages that wait, and Oldest when the oldest of them was created; zero if none waits.
	Waiting int64
	Oldest  time.Time
	// Last is the message that was sent last, without its body; its ID is 0 if none was sent.
	Last Delivery
}
