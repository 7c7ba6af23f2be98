// Package fleet has what the decisions of nodes that share counters need of each other, in Redis and under the
// prefix of
// the counters: Presence counts the live nodes, Bus sends which buckets have more room than before, LoadBoard keeps the
// reported loads of pools, RegionArrivals and RegionShares what the nodes of a region know of the others, Secret is the
// secret that seals reservations, CompareSettings finds nodes whose settings differ, and ClaimDatabase finds nodes of
// another rules database.
package fleet
