// Package fleet stores the data that nodes with shared counters need for decisions, in Redis and under the prefix of
// the counters. Presence counts the live nodes, Bus announces buckets that have more room than before, LoadBoard keeps
// the reported loads of pools, RegionArrivals and RegionShares keep the data of a region about other regions, Secret is
// the secret that seals reservations, CompareSettings finds nodes whose settings differ, and ClaimDatabase finds nodes
// of another rules database.
package fleet
