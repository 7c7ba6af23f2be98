// Package nearstore answers requests in this node that need no call to the counter store. It stands in front of a
// limiter.Store that is reached over a network.
//
// A denial that holds until a known instant is answered from memory until then. A hot bucket's limit may be taken in
// leases that this node spends from memory, or be split among several keys. None of this admits more than the store
// would have; docs/hotkeys.md gives the argument and the bounds.
//
// A worked example, 10,000 units per second in fixed windows, two nodes, 2,000 takes per second on this one, hot_keys
// leased:
//
//	t=0 ms    take 1         calls the store: it is not hot yet
//	…
//	t=500 ms  take 1         the 1,000th of this second: hot. The store is called
//	                         for 1 + 100 units; remaining 8,899
//	t=501 ms  take 1         spent from the lease, remaining 8,998
//	…
//	t=550 ms  take 1         the lease is used up: a call for 1 + 200 units
//	t=1000 ms                the window ends, and with it every lease of it
package nearstore
