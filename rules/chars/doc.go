// Package chars defines the characters that texts of rules may contain, and encodes and decodes
// %XX.
//
// A worked example. Unsafe refuses the line break in "a\nb", IsName takes
// "tenant.id" and refuses "tenant id", and Unescape reads "a%2Ab" as "a*b", of
// which AppendEscaped writes the * as %2A.
package chars
