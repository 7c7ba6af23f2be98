// Package chars defines the characters that texts of rules may contain, encodes and decodes %XX,
// and writes texts of callers so that people can look at them.
//
// A worked example. Unsafe refuses the line break in "a\nb", IsName takes
// "tenant.id" and refuses "tenant id", and Unescape reads "a%2Ab" as "a*b", of
// which AppendEscaped writes the * as %2A. Shown writes the line break in "a\nb" as %0A.
package chars
