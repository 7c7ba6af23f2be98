package limiter

// A store records what a named request (Request.ID) did. The caller can then
// repeat it after a lost answer without a second charge, and refund it later.
// Both stores follow these rules:
//
//   - A store records every OpCharge, and every OpTake that all limits allowed, if it spent anything and at least one
//     of its limits is not concurrency (whose slots are idempotent without a record). Denied takes, peeks and takes
//     that spend nothing (weight 0, Ask.Look) leave no record and do not change an older one.
//   - A record belongs to the entity of the request's first key (Key.Tag) and
//     the ID. A later recorded request of the same entity and ID replaces it.
//   - A take or charge whose record exists, names the same keys in the same order, bans aside, has not been refunded in
//     any part, and is between 0 and ReplayWindow old on the store's clock, is answered from the record:
//     Result.Replayed is true, Result.At and every Decision repeat the first answer, nothing is spent, nothing is
//     written. A ban that the record does not name allows. If the limits of a request are in different slots of a
//     cluster, limits that only looked allow it and show their present figures.
//   - OpRefund with an ID gives back, for each of its keys that the record names, what was charged there, once; other
//     keys give back 0. A concurrency ask releases the slot of that ID instead. The record knows the bucket of each
//     charge: if the key has got another bucket since, after a reset here or in another region or after its units moved
//     (Ask.Former), nothing is given back. The record also contains the limit of each charge: if an edit has since
//     mixed the charge with others (another window, alignment or number of sub-windows, another rate of a bucket, for
//     gcra another burst), nothing is given back.
//   - The attempts (Request.Attempt) of the take that made a record, and of the takes that the record answered, hold
//     the record. OpRefund with an attempt ends its hold, and gives back only if no other attempt holds the record. A
//     take without an attempt holds the record for ever. More than MaxAttempts attempts hold it for ever too. A request
//     that is denied or fails can thus give back what it took, unless a repeat relies on that.
//   - OpSettle changes the weight of each charge of the record to the weight of its ask. A refunded charge weighs 0, so
//     settling charges it again: in the end the bucket never holds less than if the actual weight had been charged at
//     first. (A first_hit window that the charge opened stays where it is, even if the actual weight is 0.) A record is
//     settled once. A repeat gets the first answer for the keys it settled, while the record exists, and at least for
//     ReplayWindow after it was settled. A later refund by ID gives back what was charged at first, as far as it is
//     still charged, and not what the settlement added. A take or charge that is repeated later still gets its first
//     answer.
//   - If the limits of a request are in different slots of a cluster, each slot
//     settles its own; Allowed is true if any slot had a record. After an error
//     the same request settles the rest.
//   - A record exists for as long as any of its charges can still count, but at
//     least ReplayWindow and at most RecordTTLMax; Request.Keep prolongs that, and
//     Request.Brief shortens it to RecordBrief.
const (
	// ReplayWindow is how long a repeat gets the stored answer, ms.
	ReplayWindow int64 = 60_000
	// RecordTTLMax is the longest that a charge can be refunded by its ID, ms.
	RecordTTLMax int64 = 3_600_000
	// MaxAttempts is how many attempts hold a record by their number.
	MaxAttempts = 16
	// RecordBrief is the longest that a record is kept of a Request that is Brief, ms.
	RecordBrief int64 = 120_000
	// RecordKeepMax is the longest Request.Keep, ms: a day.
	RecordKeepMax int64 = 86_400_000
)

// RecordTTL is how long to keep the record of a request, in ms, if its last bucket expires after needed ms.
func (r *Request) RecordTTL(needed int64) int64 {
	ttl := max(min(max(needed, ReplayWindow), RecordTTLMax), min(r.Keep, RecordKeepMax))
	if r.Brief {
		return min(ttl, RecordBrief)
	}
	return ttl
}
