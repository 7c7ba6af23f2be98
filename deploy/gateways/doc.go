// Package gateways has examples of gateways that ask Sluice, and the tests that run them:
// each with the files that a reader copies, in front of an application, beside a node of
// its own.
//
//	make test-gateways
package gateways
