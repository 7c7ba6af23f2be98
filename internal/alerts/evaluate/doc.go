// Package evaluate turns what nodes and figures say into alerts. One node does so for all of them: the one that holds a
// lease in the rule database.
//
// Evaluate is pure: states and facts go in, events, messages and changed states come out. A Runner holds the lease,
// gathers the facts and stores the result. While a condition lasts, its figures are renewed (refresh.go). A Board is
// what every node knows of the conditions that are met.
//
// An example with a quiet time of 15 minutes. At 12:00:00 node A reports that user:42 reached 80 % of charges-per-user:
// an event and a message to each webhook. Node B reports it too: nothing new. At 12:00:40 both say that it fell below
// 72 %: an event that it is over. Until 12:15:00 the key comes and goes 13 more times, which is only counted. At
// 12:15:00 it is above again: an event that says that 13 were not sent.
package evaluate
