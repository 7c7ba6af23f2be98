package decide

import (
	"sync/atomic"

	"sluice/limiter"
	"sluice/rules/match"
)

// MaxText bounds each text of a question except for its payload, including the names of
// members, in bytes.
const MaxText = match.MaxText

// Question is one request to the Checker: a direct limit, or a descriptor to which the rules
// in force apply.
type Question struct {
	Op limiter.Op
	// IsDirect: Direct has the bucket and the limit, or Several has several of them, and Descriptor
	// is not used.
	IsDirect bool
	Direct   Direct
	// Several are up to MaxDirect limits with names, each with a separate bucket. They are taken all together or not at
	// all, and the strictest of their fail modes decides for all.
	Several    []Direct
	Descriptor match.Descriptor
	// Weight is in units, 0 to limiter.MaxExact; 0 looks without spending.
	Weight int64
	// OnlyBans: a reset ends bans and resets nothing else.
	OnlyBans bool
	// RequestID makes a repeat safe, identifies a charge for its refund, and identifies a
	// concurrency lease. It has up to 64 bytes. Only release and renew require it.
	RequestID string
	// Deferrable: the caller accepts a response with status 202. Payload, up to 16 KiB and
	// opaque, is then stored with a deferred request and returned when it is released.
	Deferrable bool
	Payload    string
	// Times: a reserve is one of up to Times requests like this one, and of at least Least, which its caller decides; 0
	// for an ordinary one. See Checker.Reserve.
	Times, Least int64
	// Returns is the percentage, 0 to 100, of what a reserve charged that goes back if nobody settles it in time.
	Returns int64
	// Dialect is the dialect of the answer to the client, a word of package profile; "" is none.
	Dialect string
	// Origin is for records only.
	Origin Origin
	// Gone is true once the caller has left; nil: it never leaves, or the context says so.
	Gone *atomic.Bool
	// Late: the request has waited to be read for as long as it may wait for its turn; see TooLate.
	Late bool

	strict  bool   // no fail mode decides
	reserve int64  // the lifetime of the reservation to create, ms; 0 for none
	secret  []byte // seals the reservation; nil while it is unavailable
}

// MaxDirect is the largest number of direct limits in one question.
const MaxDirect = 16

// Direct is a limit that the caller sends.
type Direct struct {
	// Name identifies the limit within its question; "" if it is the only one.
	Name string
	// Key is the caller's own name. It names the bucket together with the window of Limit and the
	// kind of its algorithm.
	Key string
	// Limit must be valid.
	Limit limiter.Limit
	// FailMode is open, closed or local; "" is open.
	FailMode string
}
