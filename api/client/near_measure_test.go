//go:build measure

package client

// A million checks in all.
func init() { stormChecks = 62_500 }
