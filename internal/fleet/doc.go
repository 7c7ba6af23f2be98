// Package fleet knows what all nodes together decide: how many requests pass
// and how many are denied, by which rules, for which keys, and which nodes
// there are. This is what the console shows, and no check asks it.
//
// Every node counts for itself in a Recorder and posts its own absolute figures
// on a Board that all of them read: tables in Redis, or in this process when
// nothing is shared. A table belongs to a stretch of time and has a field a
// node, so posting again after a lost answer changes nothing:
//
//	s:29400123   one minute  node-1:07 -> "812 14 0 0 0"   requests in second 7
//	t:176400741  ten seconds node-1    -> {"charges-per-user":[812,14,0,0,0]}
//	m:490002:charges-per-user    an hour,     node-1:41 -> "…" minute 41
//	q:20416:charges-per-user     a day,       node-1:95 -> "…" quarter 95
//	k:490002:charges-per-user    an hour,     node-1    -> {"user:42":119}
//	x:17:4                       30 days,     node-1:7  -> "7399 12 1764201600000"  trial of rule 17 in version 4
//	nodes                                      node-1    -> {"set_version":7,…}
//	hot                        15 seconds    node-1    -> {"keys":[{"key":"user:42","rate":4200,…}]}
//
// A reader adds up the nodes. Figures of a second are therefore complete about
// two seconds later.
//
// Nodes that share counters also tell each other what deciding needs, in Redis
// and under the prefix of the counters: Presence counts the nodes, Bus names
// buckets that have more room than before, LoadBoard keeps what is reported
// about pools, and Secret is the secret that seals reservations.
package fleet
