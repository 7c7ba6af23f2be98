// Package deferred is about requests that a rule denied now and lets pass later:
// what a queue of them promises, and what one item is. Its sub-packages are the
// queues: redisqueue, shared by every node, and filequeue, for one node by
// itself; queuetest is the suite that both pass.
//
// A worked example. A rule allows 5 a second and keeps up to 1,000 requests for
// an hour. The sixth request of a second is put into the queue of the rule and
// its caller gets a ticket. A runner asks for what may go: the item is leased
// for 30,000 ms, the rule's own bucket is asked, says no, and the item goes back
// to its place. A second later the bucket says yes: the runner gets the item,
// sends it on, and acknowledges the ticket; only then is it gone. Had the runner
// died, the item would have come back after those 30,000 ms.
package deferred
