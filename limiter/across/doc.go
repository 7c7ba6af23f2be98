// Package across decides requests whose limits are in several places, all or nothing, and undoes charges that must not
// stay.
//
// A place decides its own limits in one step and knows nothing of other places: a hash slot of a Redis cluster
// ([sluice/limiter/redisstore]), or a region that is the home of keys ([sluice/internal/region/home]).
//
// A [Request] is a state machine without I/O and clock. [New] divides a request into a [Part] for each place. [Run]
// sends parts in rounds through a function of the caller, which sets the answer of each; after each round the machine
// reads the answers and says what to send next:
//
//	take      in one of two orders, below; a charge and all other operations go to all places at once
//	Confirm   parts that were answered by the record of an earlier attempt rely on it: nobody undoes it from then on
//	Undo      after a denial or a failure: what was taken, or may have been, is given back; bans count the denial
//
// The order is [Options.LookFirst]. Where a round is cheap, as between slots, the narrowest part takes and all others
// look: most denials cost one round and list every limit that denies. If everything fits, the others take at once. If
// one of them was lost to another request in between, everything is undone, and with three places or more taken once
// again, one after the other. Where a round is slow, as between regions, the parts take one after the other from the
// start, in the order of their places, and look only once another part has denied.
//
// What holds:
//
//   - An allowed request is charged at all places, a denied one at none once its undos are done.
//   - A request that is repeated under its id is charged once: parts with a record answer from it, the others decide
//     again.
//   - A denial stays a denial while its undos are repeated. Only a lost undo turns the answer into an error.
//   - After an error every take is undone, unless the part is Kept for a repeat. An error without Unknown has left
//     nothing charged.
//   - Between the rounds other requests see units as taken that may be undone. Such units may deny them, but never
//     admit them beyond a limit.
//
// A place must be able to undo a part exactly, once, and when the answer to its take was lost: a slot by the name of
// the attempt, under which it keeps the booked units; a region by the id of the request and the number of the attempt.
// [Undos] repeats unconfirmed undos in the background, until they are confirmed or too old.
//
// A worked example, a request of weight 1 over a limit of 100 by user, at place 1 with 61 left, and one of 9000 by
// address, at place 2 with 1 left. The narrowest part is that of 100:
//
//	t=0.0 ms  place 1: Ask, allowed, 60 left    place 2: Look, would fit, 1 left
//	t=0.3 ms  place 2: Ask, denied: another request was quicker
//	t=0.6 ms  place 1: Undo, 61 left again
//	t=0.9 ms  the answer: denied by the address; 61 left by user, 0 by address
//
// If the answer to the Undo is lost, the answer to the request is the same, with 61 left. Place 1 is sent the Undo
// again after 20 ms, 40 ms and so on, until it has confirmed.
package across
