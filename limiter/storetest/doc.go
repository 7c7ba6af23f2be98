// Package storetest is the conformance suite of limiter.Store. A store is complete
// when it passes:
//
//	func TestModel_Conforms(t *testing.T)        { storetest.Model(t, harness) }
//	func TestModel_Vectors(t *testing.T)         { storetest.Vectors(t, harness) }
//	func TestStore_WeathersStorms(t *testing.T) { storetest.Storm(t, harness) }
//
// make test runs tests called TestModel_ without the race detector. They have one caller.
//
// It has three independent sources of truth: the worked cases of
// testdata/vectors.json (and of the file that the environment variable
// SLUICE_VECTORS names), a slow exact reference model with fractions and searches,
// and truths that need no expected numbers, such as "waiting exactly retry_after
// admits, one millisecond less does not".
//
// A worked case, a fixed window of 3 units in 1000 ms on the store's clock:
//
//	t=0    take 1   allowed, remaining 2, reset 1000
//	t=10   take 1   allowed, remaining 1, reset 990
//	t=999  take 1   allowed, remaining 0, reset 1
//	t=999  take 1   denied, retry after 1
//	t=1000 take 1   allowed, remaining 2, reset 1000
package storetest
