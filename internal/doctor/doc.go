// Package doctor finds rules that do not serve their purpose, by the figures of package history: rules that match
// nothing, that are too strict or too lenient, that others make useless, or that are ready to be promoted.
//
// Examine is a pure function from figures to findings; a Doctor reads the figures. Nothing is stored. A finding needs
// evidence, and unknown figures are none.
//
// One worked example: a rule allows 1,000 requests an hour, which is 0.28 a second. In the worst second of the last day
// 700 requests of one key passed. That is over ten times the rate and over half of the limit, so the finding is
// UselessInBursts with {"passed": 700, "limit": 1000, "times": 2520, "keys": 1}.
package doctor
