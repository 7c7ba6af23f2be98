// Package nearstore answers near the caller what need not travel: it stands in
// front of a limiter.Store that is reached over a network.
//
// A denial that holds until a known instant is told from memory until then. A
// hot bucket's limit may be taken in slices that this node spends by itself, or
// be split among several keys. Nothing of it lets more through than the store
// would have; docs/hotkeys.md has the argument and the bounds.
//
// A worked example, 10,000 units a second in fixed windows, two nodes, 2,000
// takes a second on this one, hot_keys leased:
//
//	t=0 ms    take 1         asked: it is not hot yet
//	…
//	t=500 ms  take 1         the 1,000th of this second: hot. The store is asked
//	                         for 1 + 100 units; remaining 8,899
//	t=501 ms  take 1         spent from the slice, remaining 8,998
//	…
//	t=550 ms  take 1         the slice is used up: asked for 1 + 200 units
//	t=1000 ms                the window ends, and with it every slice of it
package nearstore
