// Package gateways contains examples of gateways that ask Sluice, and the tests that run them. Each test starts a
// gateway with the files that a reader copies, in front of an application, and a node for it.
//
//	make test-gateways
package gateways
