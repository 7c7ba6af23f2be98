// Package sim simulates failures of the decision core, one seed at a time: real Checkers on several nodes, each with
// its own set of rules, memory store and Ledger, one shared counter store, and between them a network that loses
// requests, loses replies after the request was applied, and delivers late. The store goes down, fails over and loses
// its last writes, is emptied, and its clock steps. Rules are edited and reach every node at a different time. Nodes
// crash. A client takes, repeats by request_id the requests whose answers were lost, refunds, charges, resets, releases
// and renews. Nodes reconcile the units that they admitted alone.
//
// Everything runs on one goroutine, on a virtual clock, from one seed: the same seed gives the same
// run, line by line. After every step, each store is checked against its books:
//
//   - a denied request, a look and a repeat changed nothing; an admitted request took exactly its
//     weight from each of its buckets, and no other bucket changed;
//   - a named request is charged once for as long as it can be repeated;
//   - the units in the books keep the published bound of every limit, and a bucket that never
//     drains holds exactly the sum of its books;
//   - an answer comes from the store, or from the fail modes if the store could not decide: closed never admits, shadow
//     never denies, and the degraded mark and the reported cause are correct;
//   - waiting retry_after admits if no other request comes; a millisecond less does not;
//   - a refund by name never leaves less than if its charge had not happened, unless an edit, a reset, a refund without
//     a name or a backward step of the clock came in between, or a charge exceeded the capacity of a gcra bucket: then
//     the units in the bucket cannot be distinguished;
//   - the Ledger of a node remembers everything that the node admitted alone, everything that it reports as reconciled
//     has arrived, and the accounting metrics are correct;
//   - admitted = within limit + lost by failover + lost by flush + local + open.
//
// A worked example. A rule of 4 in 1000 ms fails open. At 100 ms the client takes 1 as q7. The
// store charges it, the reply is lost, and the node's answer is allowed, degraded open: 1 admitted,
// 1 open, 1 charged without being heard. At 150 ms the client repeats q7 and gets the stored
// answer: nothing changes. It then takes 3 and 1. The 3 are within the limit; the 1 is denied,
// because the unheard unit still counts, and changes nothing. At 400 ms the store fails over and
// loses its last write, the 3. Now 4 are admitted = 0 within limit + 3 lost + 1 open, and the 3
// that fit again can be admitted again, within the limit.
//
// `go test ./internal/sim` runs 1,000 seeds and the seeds in testdata/regressions.txt. SLUICE_SIM_SEEDS=n runs another
// number of them; SLUICE_SIM_SEED=n with -v runs one and shows its trace.
package sim
