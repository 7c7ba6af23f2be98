// Package deliver sends messages to webhooks. It signs them as Standard Webhooks says, sends them only to allowed
// addresses, and retries for a day until the receiver accepts them. Messages about one subject are sent in order.
//
// An example: a message is due at 12:00:00 and the receiver answers 500. It is sent again, with the same webhook-id, at
// 12:00:05, 12:00:15, 12:00:35 and so on, with pauses of at most an hour and each time up to a fifth later, until the
// receiver answers 2xx or it is 12:00 of the next day. Until then the next message about the same subject waits;
// messages about other subjects do not.
package deliver
