// Package region counts limits over several regions. A region is the nodes that share one counter store. This package
// has what its three rooms share:
//
//   - package updates, for span global: every region sends to the others what it has spent.
//   - package share, for span local_then_global: every region has a part of the limit, and lends what it does not need.
//   - package home, for span global_exact: every key has one home region, and the other regions ask that region.
//
// Store stands in front of the counter store. The Checker only sets Ask.SpanOf, and reads Result.Parts: Store finds the
// rule, asks the three rooms what this region may spend of its limit, and decides by that. A Link carries the messages
// of every room to another region. An Overview has what a node knows of all regions.
//
// A worked example. Three regions have a limit of 90 a minute, and this region receives no updates from us:
//
//	err := store.Do(ctx, req, res) // as any limiter.Store
//	req.Asks[0]                    // {SpanOf: 7, Limit: 90 a minute}
//	res.Parts[0].Asked.Limit       // 30 a minute: what the counter store has decided by
//	res.Parts[0].Whole             // 90
//	res.Parts[0].CutOff            // true: the answer says "degraded": "region"
//
// # What happens to a check
//
// A check of a rule with span global, while a region is disconnected:
//
//  1. For three intervals no update from us has arrived, or us has accepted none: updates.Exchange.CutOff is true.
//  2. Store puts the part that cut_off says in place of the limit, a third of it for share (updates.Exchange.Part).
//  3. The region's Redis decides by that, and keeps its sums for us. The answer says degraded: region.
//  4. us is reachable again: its sums arrive, ours are sent, and within an interval the limit is the whole one.
//
// A check of a rule with span global_exact, whose home dies after it has taken the units:
//
//  1. home.Store has taken the limits that are at home here, under the id of the request, and waits for the home.
//  2. SLUICE_REGION_TIMEOUT is over: the error is CauseHome and Unknown. home gives back at once what it has taken
//     here, and at the home as soon as that answers, for up to a minute, unless the caller can repeat the request by
//     its id.
//  3. Store takes the limits that are not at home there once more, all or nothing (Result.Rest).
//  4. The fail mode of the rule decides the limit of the home: local by an equal part for each region and node. If it
//     denies, the Checker gives back the rest.
//
// A share of a rule with span local_then_global, whose borrower freezes:
//
//  1. eu has lent us a part for three share intervals. It does not spend that part until the loan has ended and nothing
//     that was spent under it counts any more (share.Lease).
//  2. us freezes, asks for no longer loan, and the loan ends. Then eu spends the part itself.
//  3. us goes on: its nodes know until when their part was good (share.Shares.Share), and its Redis refuses a take
//     that was planned before and comes later (Ask.NotAfter). It has its own part until it borrows again.
package region
