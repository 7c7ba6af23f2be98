// Package matrix has the cells in which spans of rules are measured for docs/benchmarks.md. Only measurements
// (make bench-regions) use it.
package matrix
