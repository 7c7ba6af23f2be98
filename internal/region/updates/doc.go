// Package updates sends to other regions what this one spends: it exports the sums of this region at every interval,
// sends them to a node of each other region, and applies what those send.
//
// All nodes of a region send. The lease with which the store exports a bucket settles which node sends it: if that node
// dies, another one exports the bucket again. A node answers for its whole region. It notes in the region's Redis that
// an update has arrived (Arrivals). If no node of this region has noted one for three intervals, the sender is cut off.
//
//	x, err := updates.New(updates.Options{Self: "eu", Peers: peers, Store: store, …})
//	stops.add("regions", task(x.Run))
//	answer, err := x.Receive(ctx, body) // for POST /ratelimit/regions/exchange
//	x.CutOff()                          // on every check of a limit that spans regions
//
// Outbox, Demands and the messages are pure: they have no clock, no goroutine and no connection. Exchange uses them so:
//
//	sums, err := store.Export(ctx, 10_000, lease)   // limiter.Exporter
//	sums[i].Guard = demands.Guard(&sums[i], now)    // of each, one Demands
//	box.Add(sums)                                   // one Outbox
//	updates := box.Next("us", 10_000)               // what "us" lacks
//	for _, m := range Encode(message) { … }         // messages, each bounded
//	box.Accepted("us", updates)                     // it has answered
//	err = store.Confirm(ctx, box.Confirmed())
//
// A worked example. A limit of 100 in a minute, three regions, an exchange every 200 ms, 100 ms of delay. Callers ask
// each region for 40 per second. After 0.8 s the regions have admitted 96 together, and each counts 60. Without a Guard
// they continue until each counts 100: the bound is 120 per second times 0.3 s times 2/3, 24 units over. With a
// limiter.Guard each spends at most a third of the 40 that were left by the updates that the others had received.
package updates
