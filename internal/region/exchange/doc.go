// Package exchange lets regions tell each other what they spend: it exports the sums of this region, sends them to
// the nodes of the others, and applies what those send.
//
// Every node of a region sends. Which node tells of a bucket is settled by the lease with which the store exports it,
// so that a node that dies leaves nothing untold, and the load spreads by itself. Every node answers for its region.
// That news has arrived is noted in the region's Redis, where all nodes see it: a region from which none has noted
// news for three intervals is cut off.
//
//	x, err := exchange.New(exchange.Options{Self: "eu", Peers: peers, Store: store, …})
//	stops.add("regions", task(x.Run))
//	answer, err := x.Receive(ctx, body) // for POST /ratelimit/regions/exchange
//	x.CutOff()                          // on every check of a limit that spans regions
package exchange
