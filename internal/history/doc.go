// Package history keeps and reads figures about decisions, for each rule and for all requests: counts by second,
// minute, hour and day, the most active keys, routes and tenants, and the effect of limits on trial. No check waits for
// it.
//
//	Recorder ─ each second ─┬─▶ Own: this process's last two hours ─ Writer, each minute ─▶ Store (the rules database)
//	                        └─▶ Publisher ─▶ Board (Redis, or memory): the last minutes of all nodes, by second
//
// Every process writes its own rows of absolute figures under a random number. So a repeated write after a lost answer
// changes nothing, and no process waits for another one. After a few hours, any node adds up the rows of all processes
// (Fold) and deletes them in the same transaction, so that nothing is counted twice.
//
// A Reader reads each minute of a process from one place. While the store is unavailable, an Own still holds two hours.
// A minute that no place holds is unknown, which is not 0.
//
// A table on the Board belongs to a period and contains a field for each node, so a repeated post changes nothing:
//
//	s:29400123   one minute   node-1:07 -> 812 14 …   requests in second 7
//	t:176400741  ten seconds  node-1:4  -> charges-per-user 812 14 …   in the fifth of them
//	k:176400741  ten seconds  node-1:4  -> charges-per-user user:42 47 …   the keys that were denied most in it
//	nodes                     node-1    -> {"set_version":7,…}
//	hot                       node-1    -> {"keys":[{"key":"user:42","rate":4200,…}]}
package history
