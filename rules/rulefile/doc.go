// Package rulefile reads and writes the files that people keep: rules, pools and
// profiles as YAML or JSON, and the overrides of a rule as CSV.
package rulefile
