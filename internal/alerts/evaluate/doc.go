// Package evaluate turns reports of nodes and figures into alerts. One node does so for all nodes: the holder of a
// lease in the rule database.
//
// Evaluate is pure: states and facts go in, events, messages and changed states come out. A Runner holds the lease,
// gathers the facts and stores the result. While a condition lasts, its figures are renewed (refresh.go). A Board holds
// the active conditions on every node.
//
// An example with a quiet time of 15 minutes. At 12:00:00 node A reports that user:42 reached 80 % of charges-per-user:
// an event and a message to each webhook. Node B reports it too: nothing new. At 12:00:40 both report that it fell
// below 72 %: an event for the end of the condition. Until 12:15:00 the condition begins and ends 13 more times, which
// is only counted. At 12:15:00 the key is above the level again: an event that says that 13 were not sent.
package evaluate
