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
package region
