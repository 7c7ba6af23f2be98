package limiter

// A store remembers what a named request (Request.ID) did, so that its caller
// may repeat it after a lost answer without being charged again, and may refund
// it later. Both stores follow these rules:
//
//   - Recorded is every OpCharge, and every OpTake that all limits allowed, if
//     it spent anything and at least one of its limits is not concurrency
//     (whose leases are idempotent by themselves). Denied takes, peeks and takes
//     that spend nothing (weight 0, Ask.Look) leave no record and do not touch
//     an older one.
//   - A record belongs to the entity of the request's first key (Key.Tag) and
//     the ID. A later recorded request of the same entity and ID replaces it.
//   - A take or charge whose record exists, names the same keys in the same
//     order, has not been refunded in any part, and is between 0 and
//     ReplayWindow old on the store's clock, is answered from the record:
//     Result.Replayed is true, Result.At and every Decision are those of the
//     first time, nothing is spent, nothing is written. Where limits of a
//     request live in different slots of a cluster, those that only looked
//     agree and show the figures of now.
//   - OpRefund with an ID gives back, for each of its keys that the record
//     names, what was charged there, once; other keys give back 0. A
//     concurrency ask releases the lease of that ID instead. The record knows
//     the limit of each charge: where an edit has since mixed it with what
//     others spent (another window, alignment or number of sub-windows, another
//     rate of a bucket, for gcra another burst), nothing is given back.
//   - OpSettle makes each charge of the record weigh what its ask says. What was
//     refunded before weighs nothing, so settling charges it anew: in the end
//     the bucket never holds less than if the actual weight had been charged at
//     first. (A first_hit window that the charge opened stays where it is, even if
//     the actual weight is 0.) It happens once for a record; a repeat gets the first answer for
//     the keys it settled, for as long as the record lives, and at least
//     ReplayWindow after it was settled. A refund by ID that comes after it gives
//     back what was charged at first, as far as it is still charged, and not
//     what the settlement added. A take or charge repeated after it still gets
//     the answer of its first time.
//   - Where limits of a request live in different slots of a cluster, each slot
//     settles its own; Allowed is true if any slot had a record. After an error
//     the same request settles what is left.
//   - A record lives for as long as any of its charges can still count, but at
//     least ReplayWindow and at most RecordTTLMax; Request.Keep prolongs that.
const (
	// ReplayWindow is how long a repeat gets the stored answer, ms.
	ReplayWindow int64 = 60_000
	// RecordTTLMax is the longest that a charge can be refunded by its ID, ms.
	RecordTTLMax int64 = 3_600_000
	// RecordKeepMax is the longest Request.Keep, ms: a day.
	RecordKeepMax int64 = 86_400_000
)

// RecordTTL is how long to keep a record whose longest-lived bucket expires
// after needed ms and that is to be kept for keep ms.
func RecordTTL(needed, keep int64) int64 {
	return max(min(max(needed, ReplayWindow), RecordTTLMax), min(keep, RecordKeepMax))
}
