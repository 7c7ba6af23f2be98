// Package share divides limits among regions so that what they may spend never adds up to more than the limit: each
// owns an equal part, and lends for a while what it does not need. State is what a region knows of that, a state
// machine without a clock, a goroutine or a connection. Shares is a node's part in it: it keeps the state in the
// region's Redis, sends demand to the other regions every interval, borrows from them and lends to them, and says to
// each check what this region may spend of a limit.
//
// All nodes of a region do the same. Redis settles which of them acts. Two nodes that act at once do no harm: a state
// is kept only if no other node has kept one since it was read, and no message is sent from a state that was not kept.
//
// A worked example. Three regions have a limit of 90 in a second, 30 each. Callers ask us for 200 per second, and the
// other regions for nothing. eu lowers its own limit to 1 and waits until its nodes know (Config.Valid). Units that no
// key has used by then (Marks) are free at once; the rest are free when the spent units no longer count (Life). us
// asks, and gets 29 for three intervals:
//
//	s.Tick(&config, specs, asked, marks, now)     // of eu: lends and returns by demand
//	m := s.Message(&config, "eu", specs, now)     // of us, every interval
//	a := s.Answer(&config, m, specs, now)         // of eu; counts once the state is kept
//	s.Accept(&config, a, specs, sent, now)        // of us
//	use, until := s.Use(&config, rule, spec, now) // spans of a limit
//	limit = Limit(limit, use)
package share
