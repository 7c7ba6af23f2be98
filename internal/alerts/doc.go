// Package alerts defines alerts for operators: their kinds, events, messages and webhooks. It does no I/O. Package
// evaluate decides on one node which alerts are sent, package deliver sends the messages.
//
// An example: the rule charges-per-user allows 100 requests a minute and has notify_percent [80, 100]. The 80th request
// of user 42 causes an event key_usage with the level 80. The webhook pager gets it as a message. The use of the key
// then varies between 70 and 85 of 100: it counts as below 80 only at 72, and within a quiet time of 15 minutes a
// second event about it is only counted, so that the next message says "1 more in between".
package alerts
