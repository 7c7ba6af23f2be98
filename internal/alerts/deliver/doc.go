// Package deliver sends messages to webhooks: signed as Standard Webhooks says, only to addresses that are allowed,
// again and again for a day until the receiver has them, and those of one subject in order.
//
// An example: a message is due at 12:00:00 and the receiver answers 500. It is sent again, with the same webhook-id, at
// 12:00:05, 12:00:15, 12:00:35 and so on, at most an hour apart and each time up to a fifth later, until the receiver
// answers 2xx or it is 12:00 of the next day. The next message about the same subject waits meanwhile; those about
// other subjects do not.
package deliver
