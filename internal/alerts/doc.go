// Package alerts decides when ops are told of something, and in which words. It is pure: facts and the time go in,
// events and messages come out. Package evaluate feeds it on one node, package deliver sends the messages.
//
// An example: the rule charges-per-user allows 100 requests a minute and has notify_percent [80, 100]. The 80th request
// of user 42 makes an event key_usage with the level 80. The webhook pager gets it as a message. The key then teeters
// between 70 and 85 of 100: it counts as below 80 only at 72, and within a quiet time of 15 minutes a second event
// about it is only counted, so that the next message says "1 more in between".
package alerts
