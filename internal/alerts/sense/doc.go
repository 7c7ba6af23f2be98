// Package sense observes conditions for alerts on each node: keys that have used much of their limit, decisions by fail
// modes, and conditions of the node that other packages supply. It reports them to the rule database, where the node
// that evaluates alerts reads them.
//
// A Sensor observes every decision. It reports a condition when it begins and when it ends, and again at long intervals
// while it lasts. So the condition also ends if the node dies. Up to 1,000 reports wait in memory while the database is
// unavailable; further ones are dropped and counted.
package sense
