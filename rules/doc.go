// Package rules has what people write: rules, pools and overrides, with their tables of fields, validation, plans and
// history. It knows no request; package match finds the rules that apply to one.
//
// Decoding, files, forms, history and bounds of a rule all use its table (Fields), so a new field is one line there,
// and its meaning in Validate and in package match.
package rules
