// Package demo is sluice demo: a server in a temporary directory with rules, a day of figures, and requests of a shop
// that does not exist.
//
//	rules.go    what people wrote in the last days: rules, a pool, overrides, an edit
//	shape.go    how many requests arrive at a second, and how they are decided
//	past.go     the figures, the trial, the incident and the alert of the last day, written as nodes write them
//	traffic.go  the requests from the start on, which the server decides
//	tour.go     the tour of the console
//
// The past is computed from the time and a seed, so that a second always has the same figures. An example: the traffic
// of a day is lowest at 02:00 UTC, with 7.5 requests per second, and highest at 14:00, with 25 per second. Every six
// minutes one address tries 160 passwords in eight seconds. Almost all of them are denied, which is most of the 3 % of
// requests that are.
package demo
