// Package sim lives through the failures of the decision core, one seed at a
// time: real Checkers on several nodes, each with its own set of rules, memory
// store and Ledger, one shared counter store, and between them a network that
// loses requests, loses replies after the request was applied, and delivers
// late. The store goes down, fails over and loses its last writes, is emptied,
// and its clock steps; rules are edited and reach every node at another time;
// nodes crash. A client asks, repeats by request_id what it did not hear, gives
// back, charges, resets, releases and renews; nodes settle what they admitted
// alone.
//
// Everything happens on one goroutine, on a virtual clock, drawn from one seed:
// the same seed gives the same life, line by line. After every step books kept
// beside each store say what it must hold:
//
//   - a denied request, a look and a repeat changed nothing anywhere; an admitted
//     one took exactly its weight from every bucket, and no other bucket changed;
//   - a named request is charged once for as long as it can be repeated;
//   - what stands in the books keeps the published bound of every limit, and a
//     bucket that never drains holds exactly the sum of its books;
//   - an answer is what the store said, or what the fail modes make of its
//     silence: closed never admits, shadow never denies, the degraded mark and
//     the reported cause are the true ones;
//   - waiting retry_after admits if nobody else comes, a millisecond less does not;
//   - a refund by name never leaves less than if its charge had not been, unless
//     an edit, a reset, a refund without a name or a clock stepped back came
//     between them: then the units in the bucket cannot be told apart any more
//     (nor can they after a charge went over the rim of a gcra bucket);
//   - what a node admitted alone is what its Ledger remembers, and what the Ledger
//     says it settled has arrived; the accounting metrics say what happened;
//   - admitted = within limit + lost by failover + lost by flush + local + open.
//
// A worked example. A rule of 4 in 1000 ms fails open. At 100 ms the client asks
// for 1 as q7; the store charges it, the reply is lost, and the node's answer is
// allowed, degraded open: 1 admitted, 1 open, 1 charged unheard. At 150 ms the
// client repeats q7 and gets the stored answer: nothing moves. Asks for 3 and for
// 1 follow; the 3 are within the limit, the 1 is denied because the unheard unit
// still stands, which changes nothing. At 400 ms the store fails over and loses its last
// write, the 3. Now 4 are admitted = 0 within limit + 3 lost + 1 open, and the 3
// that fit again can be admitted again, within the limit.
//
// `go test ./internal/sim` runs 1,000 seeds and those of
// testdata/regressions.txt. SLUICE_SIM_SEEDS=n runs another number of them;
// SLUICE_SIM_SEED=n with -v runs one and shows its trace.
package sim
