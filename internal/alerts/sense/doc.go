// Package sense is what each node sees of alerts by itself: keys that have used much of their limit, fail modes that
// decide, and conditions of the node that others tell it. It reports them to the rule database, where the node that
// evaluates alerts reads them.
//
// A Sensor observes every decision. It reports a condition when it begins and when it is over, and again at long
// intervals while it lasts, so that the condition ends if the node does. Up to 1,000 reports wait in memory while the
// database is unavailable; further ones are dropped and counted.
package sense
