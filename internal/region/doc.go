// Package region is the exchange of counts between regions, as pure functions: what is worth telling, to
// whom it is still to be told, the message, and what share a region has of what is left until the others
// have heard of it. It has no clock, no goroutine and no connection.
//
// A region is the nodes that share one counter store. Each keeps sums of what it spends (limiter.Sums).
// Every interval its exporter takes those that have changed, sends them to the others, and confirms to the
// store what every region has:
//
//	sums, err := store.Export(ctx, 10_000, lease)         // limiter.Exporter
//	sums[i].Guard = demands.Guard(&sums[i], now)           // of each, one Demands
//	box.Add(sums)                                          // one Outbox
//	news := box.Next("us", 10_000)                         // what "us" lacks
//	for _, m := range Encode(message) { … }                // messages, each bounded
//	box.Told("us", news)                                   // it has answered
//	err = store.Confirm(ctx, box.Confirmed())
//
// The receiver decodes the message and applies each bucket with limiter.OpApply.
//
// A worked example. A limit of 100 in a minute, three regions, an exchange every 200 ms, 100 ms of delay.
// Each region is asked for 40 a second. After 0.8 s they have admitted 96 together and know of 60. Without
// a Guard they go on until each knows of 100: the bound is 120 a second times 0.3 s times 2/3, 24 units
// over. With a limiter.Guard each spends at most a third of the 40 that were left when the others last heard
// of it.
//
// # What happens to a check
//
// The packages below carry it out: exchange and sharing talk to the other regions, home asks them, and spanning stands
// in front of the counter store. The Checker only sets Ask.SpanOf, and reads Result.Parts.
//
// A check of a rule with span global, while a region is disconnected:
//
//  1. For three intervals exchange has had no news of us, or us has taken none: Exchange.CutOff is true.
//  2. spanning puts the part that cut_off says in place of the limit, a third of it for share (Exchange.Part).
//  3. The region's Redis decides by that, and keeps its sums for us. The answer says degraded: region.
//  4. us is reachable again: its sums arrive, ours are sent, and within an interval the limit is the whole one.
//
// A check of a rule with span global_exact, whose home dies after it has taken the units:
//
//  1. home.Store has taken the limits that are at home here, under the id of the request, and waits for the home.
//  2. SLUICE_REGION_TIMEOUT is over: the error is CauseHome and Unknown. home gives back at once what it has taken
//     here, and at the home as soon as that answers, for up to a minute, unless the caller can repeat the request by
//     its id.
//  3. spanning takes the limits that are not at home there once more, all or nothing (Result.Rest).
//  4. The fail mode of the rule decides the limit of the home: local by an equal part for each region and node. If it
//     denies, the Checker gives back the rest.
//
// A share of a rule with span local_then_global, whose borrower freezes:
//
//  1. eu has lent us a part for three share intervals. It does not spend that part until the loan has ended and nothing
//     that was spent under it counts any more (share.Lease).
//  2. us freezes, asks for no longer loan, and the loan ends. Then eu spends the part itself.
//  3. us goes on: its nodes know until when their part was good (sharing.Shares.Share), and its Redis refuses a take
//     that was planned before and comes later (Ask.NotAfter). It has its own part until it borrows again.
package region
