// Package history keeps and reads what was decided: by second, minute, hour and day, for each rule and for all
// requests,
// which keys, routes and tenants made the traffic, and what limits on trial would have changed. No check waits for it.
//
//	Recorder ─ each second ─┬─▶ Own: this process's last two hours ─ Writer, each minute ─▶ Store (the rules database)
//	                        └─▶ Publisher ─▶ Board (Redis, or memory): the last minutes of all nodes, by second
//
// Every process writes its own rows, of absolute figures, under a random number: to write again after a lost answer
// changes nothing, and no process waits for another one. Rows that are a few hours old are added up over processes by
// whichever node comes first (Fold), in one transaction that deletes them, so that nothing is counted twice.
//
// A Reader takes each minute of a process from one place. While the store is unavailable, an Own has two hours; what no
// place has is unknown, which is not 0.
//
// A table on the Board belongs to a period and has a field for each node, so posting again changes nothing:
//
//	s:29400123   one minute   node-1:07 -> 812 14 …   requests in second 7
//	t:176400741  ten seconds  node-1:4  -> charges-per-user 812 14 …   in the fifth of them
//	k:176400741  ten seconds  node-1:4  -> charges-per-user user:42 47 …   the keys that were denied most in it
//	nodes                     node-1    -> {"set_version":7,…}
//	hot                       node-1    -> {"keys":[{"key":"user:42","rate":4200,…}]}
package history
