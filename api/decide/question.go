package decide

import (
	"sluice/limiter"
	"sluice/rules"
)

// MaxText bounds each text that a question brings, names of members included but
// for its payload, in bytes.
const MaxText = rules.MaxText

// Question is one request put to the Checker: a direct limit, or a descriptor
// to which the rules in force apply.
type Question struct {
	Op limiter.Op
	// IsDirect: Direct brings bucket and limit, and Descriptor is not used.
	IsDirect   bool
	Direct     Direct
	Descriptor rules.Descriptor
	// Weight is in units, 0 to limiter.MaxExact; 0 looks without spending.
	Weight int64
	// RequestID makes a repeat safe, names a charge for its refund, and names a
	// concurrency lease. Up to 64 bytes, optional but for release and renew.
	RequestID string
	// Deferrable: the caller can bear with 202. Payload, up to 16 KiB and opaque,
	// is then kept with a request that is deferred, and given back at its release.
	Deferrable bool
	Payload    string

	strict  bool   // no fail mode decides
	reserve int64  // the life of the reservation to give, ms; 0 for none
	secret  []byte // what it is sealed with; nil while it is unavailable
}

// Direct is a limit that the caller brings.
type Direct struct {
	// Key is the caller's own name of the bucket. Two algorithms that store
	// different kinds of state have different buckets under one key.
	Key string
	// Limit must be valid.
	Limit limiter.Limit
	// FailMode is open, closed or local; "" is open.
	FailMode string
}
