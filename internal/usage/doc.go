// Package usage keeps statements in the rules database: the units that each key of a rule with keep_periods has spent
// in each period.
//
// A statement and the counter that is enforced are the same number. A node notes which buckets its decisions touched,
// reads them from the counter store every ten seconds, and writes absolute counts, with the store's time of the
// reading. A row changes only to a later reading. So a write that is repeated, overtaken or lost does no harm, and a
// bucket that was read by two nodes has the later count.
//
//	12:00:03  node A  takes 5 from {user:42}     the bucket has 5
//	12:00:07  node B  takes 2 from {user:42}     the bucket has 7
//	12:00:10  node A  reads 7, is slow
//	12:00:12  node B  settles its 2 to 6         the bucket has 11
//	12:00:14  node B  reads 11, writes 11 of 12:00:14
//	12:00:15  node A  writes 7 of 12:00:10       the row keeps 11
//
// If a node is killed, the notes that it has not written are lost. Therefore the node with the lease of alerts reads
// all buckets of such rules when it gets the lease, when another node disappears, and after the end of each period.
package usage
