// Package quota is Envoy's RateLimitQuotaService: it hands units to proxies, which decide requests by themselves.
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
// A lump is units that are charged before the message is sent. The proxy replaces what it had by DENY_ALL, and that by
// a full token bucket: a changed token bucket alone would begin with new_max × left/old_max tokens. A lump that is lost
// on its way, or whose proxy dies, stays charged, so what proxies spend is never more than what was charged. A further
// lump for the same bucket comes when the proxy's reports say that it has spent the last one, or when that has ended.
// What a replaced lump still has is lost to it, and nothing is spent twice.
//
// # Windows
//
// Units of a fixed window count the same whenever they are spent until it ends, and those of a sliding window until the
// window or sub-window ends in which they were charged. The store says how long that is, in ms from the moment of
// sending. Proxies know whole seconds, so the time to live is what is left of it less margin, without its fraction.
// It is at most maxLife, so that what a dead proxy had, and what a rule said before its last edit, ends within a
// minute. Proxies know nothing shorter than a second: such a lump is given back at once.
//
// # Buckets that drain
//
// Let a bucket have the rate r and the capacity C, and let a lump be spent at most T after its charge. What is spent
// from a to b comes from lumps charged from a-T to b. If the charges alone follow a bucket of the rate r and the
// capacity C', they are at most C' + r(b-a+T). That is at most C + r(b-a), what the bucket permits, if C' = C - rT. So
// a lump must leave rT of the capacity free. T is a tenth of the time in which the capacity drains, from 3 s to 10 s,
// and one second for the way. A rule needs a capacity of 30 s of its rate, so that this costs little of it.
//
// If callers ask for requests of the same bucket one by one (RateLimitService, check), those are charged when they are
// spent and may use all of C. All charges from a-T to b are then at most C + r(b-a+T), so both together spend at most
// rT more than the bucket permits. Of a window they never spend more than the limit.
//
// # Give back
//
// A proxy reports what it has allowed, every 5 s. A report that was sent after the end of a lump covers all that was
// spent of it, with the reports before, and perhaps some of the next lump. All that is above that is given back as if
// it had never been charged (OpSettle). A report does not say when it was sent. So two must arrive, the first one at
// least 6 s after the end and the second one at least 4 s after the first: the second one was sent after the end if it
// was on its way for less than 10 s, less the delay of the lump. If reports are lost, the stream is broken, and its
// lumps stay charged. So do lumps of gcra.
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
