// Package quota is Envoy's RateLimitQuotaService: it assigns units to proxies, which decide requests in their own
// memory.
//
// # A worked example
//
// A rule of the domain shop has the descriptor {domain: shop, entries: [{key: user}]} and a fixed window of 2,000 units
// in 60 s. Two proxies report the bucket {user: 42}, with 100 and 20 requests per second. When a window begins at
// 12:00:00.000, their demands are 7,200 and 1,440 units, so their shares are 1,000 each (limiter.Divide). Each share is
// charged in the bucket of the rule as a lump, and the answer arrives after 2 ms. Both proxies get one message with two
// actions: DENY_ALL, and then a token bucket of 1,000 tokens without refill, with a time to live of 59 s. The first
// proxy spends its lump in 10 s and denies everything until 12:01:00, because nothing is left. The second one needs
// 50 s.
//
// # What a lump is
//
// A lump is a number of units that are charged before the message is sent. The proxy replaces its former assignment by
// DENY_ALL, and then DENY_ALL by a full token bucket: a changed token bucket alone would begin with new_max ×
// left/old_max tokens. A lump that is lost in transit, or whose proxy dies, stays charged, so proxies never spend more
// than was charged. A further lump for the same bucket follows when the proxy's reports say that it has spent the last
// one, or when the last one has ended. The proxy loses the rest of a replaced lump, so no unit is spent twice.
//
// # Windows
//
// In a fixed window it does not matter when units are spent, until the window ends. In a sliding window it does not
// matter until the end of the window or sub-window in which they were charged. The store says how long that is, in ms
// from the moment of sending. Proxies use whole seconds, so the time to live is the rest of that time less margin,
// rounded down. It is at most maxLife, so that the lump of a dead proxy, or of a rule that was edited, ends within a
// minute. A proxy cannot use a lump that lasts less than a second, so such a lump is given back at once.
//
// # Buckets that drain
//
// Let a bucket have the rate r and the capacity C, and let a lump be spent at most T after its charge. Units that are
// spent from a to b come from lumps that were charged from a-T to b. If the charges alone follow a bucket of the rate r
// and the capacity C', they are at most C' + r(b-a+T). That is at most C + r(b-a), what the bucket permits, if C' = C -
// rT. So a lump must leave rT of the capacity free. T is a tenth of the time in which the capacity drains, from 3 s to
// 10 s, and one second for the way. A rule needs a capacity of 30 s of its rate, so that this costs little of it.
//
// If callers ask for requests of the same bucket one by one (RateLimitService, check), those are charged when they are
// spent and may use all of C. All charges from a-T to b are then at most C + r(b-a+T), so both together spend at most
// rT more than the bucket permits. In a window they never spend more than the limit.
//
// # Give back
//
// A proxy reports its allowed requests every 5 s. Together with earlier reports, a report that was sent after the end
// of a lump covers all units that were spent of it, and perhaps some of the next lump. The units of the lump above that
// are given back as if they had never been charged (OpSettle). A report does not say when it was sent. So two must
// arrive, the first one at least 6 s after the end and the second one at least 4 s after the first: the second one was
// sent after the end if it was in transit for less than 10 s, less the delay of the lump. If reports are lost, the
// stream is broken, and its lumps stay charged. Lumps of gcra stay charged too.
//
// # What this relies on
//
// A proxy counts a time to live from the moment when it reads the message. margin covers the usual delay. A proxy that
// reads nothing also reports nothing, and a stream without a report for maxSilence gets no lump, so a proxy that stands
// still spends at most one lump late.
//
// # Threads
//
// Book, Stream and Holder are a state machine without a clock, goroutine or connection; a lock of Service guards them.
// Each stream has three goroutines (Service.Stream), and up to maxTakes more while units are charged.
package quota
