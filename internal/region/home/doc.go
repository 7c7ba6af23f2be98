// Package home decides limits with span global_exact: each key has one home region, whose Redis holds its bucket, and
// the other regions ask that region.
//
// A Store stands in front of the region's own store. It sends the operations on buckets that are at home elsewhere to a
// node of that region, over POST /ratelimit/regions/exchange, and passes on everything else. A Receiver answers for
// this region.
//
//	s, err := home.New(home.Options{Self: "eu", Peers: peers, Store: redis, Sets: sets, …})
//	defer s.Close(ctx)
//	err = s.Do(ctx, req, res)            // as any limiter.Store
//	answer, err := receiver.Receive(ctx, body) // for the messages of other regions
//
// A request whose limits are in several places is all or nothing (package across). The places take it one after the
// other, this region first. If one denies or fails, the earlier places give their units back under the id of the
// request.
//
// A worked example, regions eu and us 80 ms apart, a rule of 3 sign-ups a day for each user:
//
//	t=0 ms    a take of user ada in eu: the home of user:ada is us. The node asks there.
//	t=40 ms   us takes it in its Redis, 2 remain
//	t=80 ms   eu answers: allowed
//	t=100 ms  a take in us: decided there without a call of another region, 1 remains
package home
