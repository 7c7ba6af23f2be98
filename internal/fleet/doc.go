// Package fleet collects what all nodes decide: how many requests are allowed and
// denied, by which rules, for which keys, and which nodes are live. The console
// shows it; no check waits for it.
//
// Every node counts for itself in a Recorder and posts its own absolute figures
// on a Board that all of them read: tables in Redis, or in this process without
// Redis. A table belongs to a period and has a field for each node, so posting
// again after a lost answer changes nothing:
//
//	s:29400123   one minute  node-1:07 -> "812 14 0 0 0 0 0 0 0"   requests in second 7
//	t:176400741  ten seconds node-1:4  -> {"charges-per-user":[812,14,0,0,0,0,0,0,0]}   in the fifth of them
//	M:29400123   one minute  node-1    -> {"a":"10.0.0.1:8080","u":1764007383,"r":{"":[…],"charges-per-user":[…]}}
//	y:490002:charges-per-user    an hour,     node-1    -> the most active keys, routes and tenants
//	x:17:4                       30 days,     node-1:7  -> "7399 12 1764201600000"  trial of rule 17 in version 4
//	nodes                                      node-1    -> {"set_version":7,…}
//	hot                        15 seconds    node-1    -> {"keys":[{"key":"user:42","rate":4200,…}]}
//
// A reader adds up the nodes. Figures of a second are therefore complete about
// two seconds later.
//
// Nodes that share counters also share what decisions need, in Redis and under the
// prefix of the counters: Presence counts the live nodes, Bus sends which buckets
// have more room than before, LoadBoard keeps the reported loads of pools, Secret
// is the secret that seals reservations, CompareSettings finds nodes whose settings
// differ, and ClaimDatabase finds nodes of another rules database.
package fleet
