package limiter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
)

// Op is the operation of a request. The zero value is OpTake.
type Op uint8

const (
	// OpTake spends each weight if all of them fit, else nothing anywhere.
	OpTake Op = iota
	// OpPeek returns the answer of OpTake and spends nothing.
	OpPeek
	// OpCharge spends whether or not the weight fits; Allowed says whether it did.
	// It does not apply to concurrency.
	OpCharge
	// OpRefund gives back units; Decision.Refunded is their number. With an ID it gives back the take or charge
	// recorded under that ID, once, and never leaves less than without that charge. Without an ID it gives back the
	// most recently spent units, up to the weight.
	OpRefund
	// OpReset deletes the buckets.
	OpReset
	// OpRelease ends the concurrency slot held under ID; without an ID the oldest slot,
	// and of several that began in the same millisecond the one whose id sorts first.
	// Decision.Refunded is its weight, 0 if there was none.
	OpRelease
	// OpRenew restarts the concurrency slot held under ID; Allowed is false if
	// none is held.
	OpRenew
	// OpSettle changes the take or charge recorded under ID to each ask's Weight: the difference is charged, whether or
	// not it fits, or refunded (Decision.Refunded says how much). Once: a repeat gets the stored answer. Without such a
	// record Allowed is false and nothing changes. Slots, asks that look and limits that are not in the record do not
	// change. With Keep and an Attempt of MaxExact it settles nothing: it prolongs the record to Keep from now, and
	// Allowed says whether there is an unsettled record.
	OpSettle
	// OpApply books the units that the region named by ID spent in the one ask's bucket, which spans regions:
	// Request.Sums, of which only the difference to the sums applied before counts; see Apply. Replayed says that the
	// sums are not newer. Allowed is false if they contradict earlier ones (Shrunk); then nothing changed.
	OpApply
	// OpRestore books the units that this region had spent in the one ask's bucket, which spans regions, before the
	// store lost its data, as another region knows them (Request.Sums); see Restore. Replayed is as for OpApply.
	// Allowed is false, and nothing changed, if the store is not being restored (Exporter.BeginRestore), or as for
	// OpApply.
	OpRestore
)

const (
	// OpClose makes the buckets deny all takes until their windows end; see Limit.Kept, which every limit of such a
	// request has. What is spent stays, and settlements and refunds of it go on. The numbers before it are those of
	// operations that only the script of Redis knows.
	OpClose = OpRestore + 5
)

var opNames = [...]string{"take", "peek", "charge", "refund", "reset", "release", "renew", "settle", "apply", "restore",
	OpClose: "close"}

// String returns the lower-case word of the glossary.
func (o Op) String() string {
	if int(o) < len(opNames) && opNames[o] != "" {
		return opNames[o]
	}
	return fmt.Sprintf("op(%d)", o)
}

// MaxLimits is the largest number of limits in one request. It bounds the cost of
// a request; no sensible set of rules comes near it.
const MaxLimits = 1024

// Ask is one limit of a request: which bucket, its limit, and the weight.
type Ask struct {
	Key   Key
	Limit Limit
	// Weight is in units, 0 to MaxExact; 0 looks without spending.
	Weight int64
	// Look: in a take, this limit is checked for Weight and spends nothing, while
	// the others are taken all or nothing. If it denies, all are denied. Other
	// operations ignore it.
	Look bool
	// Spans: the limit spans regions. The bucket keeps Sums of the units that are spent in it, for other regions to
	// apply. Only if Traits.Spans.
	Spans bool
	// Guard says whether a take of a limit that spans regions may spend only the region's part. Without a guard the
	// limit may already be a part; then its size is not sent to other regions (Sums.Count).
	Guard GuardMode
	// SpanOf is the id of the rule by whose span a region may have to spend only a part of Limit, 0 for none. A store
	// that knows the other regions puts the part in place of Limit (Part.Asked). Other stores ignore it.
	SpanOf int64
	// Spare is how many units of Limit are above that of the rule of SpanOf.
	Spare int64
	// NotAfter is the time, ms on the store's clock, until which this limit applies to the bucket; 0 for always. A
	// store that begins to decide later returns CauseTimeout. Stores in memory, which decide at once, ignore it.
	NotAfter int64
	// HighWater names the high-water mark that covers this bucket; nil for none. Stores write it in one step with what
	// is spent.
	HighWater *HighWater
	// Closed: its request is denied if the region that has the bucket cannot decide. See Request.Partly.
	Closed bool
	// Hot says how this bucket may be served while it is hot. Stores that keep
	// buckets ignore it; see package nearstore.
	Hot HotMode
	// HotRaise is the percentage by which the limit is raised (Limit.Raise) while
	// the bucket is hot and Hot is not HotExact. Stores that keep buckets ignore it.
	HotRaise int64
	// Former is the limit that the bucket had under an algorithm of another kind, nil for none. Its bucket is that of
	// FormerKey. The store first moves its spent units: in one step it charges them, at most Limit's capacity, to this
	// bucket and deletes the former one; then it decides. A peek reports the same decision and moves nothing. Neither
	// algorithm may be concurrency, and the limit does not span regions.
	Former *Limit
}

// Spends reports whether a successful take or charge books the weight.
func (a *Ask) Spends(op Op) bool { return a.Weight > 0 && (!a.Look || op != OpTake) }

// HotMode says how a bucket may be served while it is hot. The zero value is
// HotExact.
type HotMode uint8

const (
	// HotExact decides every request in the store.
	HotExact HotMode = iota
	// HotLeased lets a node lease parts of the limit and spend them in its memory: never over the limit, possibly a
	// little under it.
	HotLeased
	// HotSharded splits the bucket among several keys, each with a part of the
	// limit: never over the limit, but a weight above a part never passes.
	HotSharded
)

// Request is decided as one: all limits together or not at all.
type Request struct {
	Op Op
	// ID names the request, so that it can be repeated safely or refunded, and the
	// slot of concurrency. A take of such a slot and a renewal require it. At most 64
	// bytes.
	ID string
	// Unrepeated: the ID was made for this request, and nobody repeats it after a failure. A store of several places
	// then gives back what the request may have taken. Other stores ignore it.
	Unrepeated bool
	// Keep is the least time for which the record of a take or charge is kept, so that it can be settled or refunded
	// until then; for OpSettle see there. In ms, 0 to RecordKeepMax; 0 leaves it to RecordTTL.
	Keep int64
	// Attempt distinguishes a take or charge from its repeats under the same ID. OpRefund names it to give back what
	// this attempt took, because other repeats may rely on the charge. 1 to MaxExact, 0 for none; see ReplayWindow.
	Attempt int64
	// Brief: nobody needs the record of a take or charge after RecordBrief; Keep is 0.
	Brief bool
	// Impatient: while the store answers, the request waits for its turn until Bound.Deadline only, not until Bound.Turn.
	// A store without a queue ignores it.
	Impatient bool
	// Gone: once it is true the caller has left, and a store that has not begun with the request may leave it out with
	// CauseCanceled. Nil: the caller never leaves, or its context says so.
	Gone *atomic.Bool
	// Late: the request has waited for its turn for as long as it may before it came here. While a store with a queue
	// answers, it refuses such a request with CauseOverload. Others ignore it.
	Late bool
	// Partly: if another region does not decide a take or peek, the store still decides those of the first Partly asks
	// whose home is not that region; see Result.Rest. A store that knows no other regions ignores it.
	Partly int
	// Again: the same caller has asked for the same units before. A store that counts demand does not count them twice;
	// other stores ignore it.
	Again bool
	// Sums are the sums for OpApply and OpRestore, which do not change them.
	Sums *Sums
	// Asks are 1 to MaxLimits limits with distinct keys.
	Asks []Ask
}

// OnlyKeeps reports whether the request keeps a record for longer and settles nothing; see OpSettle.
func (r *Request) OnlyKeeps() bool { return r.Op == OpSettle && r.Keep > 0 && r.Attempt == MaxExact }

// Result answers a Request. Reuse it to save allocations: stores overwrite
// every field but the last two and append to Limits[:0].
type Result struct {
	// Allowed is true only if every limit allowed.
	Allowed bool
	// Replayed: this is the stored answer of an earlier request with this ID;
	// nothing was spent now.
	Replayed bool
	// At is the time of the decision on the store's clock, ms since the epoch.
	At int64
	// Limits has one decision an Ask, in order.
	Limits []Decision
	// Parts holds for each Ask how the region changed it, nil if it did not. Rest is what was decided although another
	// region did not decide. Both are set even with an error, and only by a store that knows the other regions.
	Parts []*Part
	Rest  *Call
}

// Part returns the Part of an Ask, nil if there is none.
func (r *Result) Part(ask int) *Part {
	if r.Parts == nil {
		return nil
	}
	return r.Parts[ask]
}

// Call is one request of a batch with its answer.
type Call struct {
	Request Request
	Result  Result
	Err     error
}

// Store keeps buckets and decides requests against them. Every request is
// atomic: no other request sees half of it. Implementations are safe for
// concurrent use and do not touch req or res after returning.
//
// An error means "could not decide", never "denied". It is a *StoreError, or
// ErrInvalid for a malformed request.
type Store interface {
	// Do decides one request within the deadline of ctx.
	Do(ctx context.Context, req *Request, res *Result) error
	// DoAll decides the calls independently, in order, and sets Result and Err of each. A failure does not affect the
	// other calls.
	DoAll(ctx context.Context, calls []Call)
}

// ErrInvalid wraps every refusal of a malformed request: too many limits, a
// repeated key, a weight out of range, an operation on a slot without an ID.
var ErrInvalid = errors.New("invalid request")

// Cause classifies why a store could not decide. It is a metric label.
type Cause string

// The causes.
const (
	CauseTimeout    Cause = "timeout"    // the deadline passed first
	CauseCanceled   Cause = "canceled"   // the caller left
	CauseConnection Cause = "connection" // refused, reset, cut off
	CauseBusy       Cause = "busy"       // pool or queue exhausted, script running
	CauseReadOnly   Cause = "read_only"  // a replica, or writes are disabled
	CauseLoading    Cause = "loading"    // the server is loading its data
	CauseMemory     Cause = "memory"     // out of memory
	CauseAuth       Cause = "auth"       // credentials missing or rejected
	CauseCluster    Cause = "cluster"    // slot moved, cluster down, cross-slot
	CauseWrongType  Cause = "wrong_type" // something else lives at the key
	CauseBadState   Cause = "bad_state"  // the stored bytes are not ours
	CauseClosed     Cause = "closed"     // the store was closed
	CauseInternal   Cause = "internal"   // anything else
	CauseBreaker    Cause = "breaker"    // the circuit breaker is open
	CauseHome       Cause = "home"       // the home region of the key did not decide
	CauseOverload   Cause = "overload"   // the store answers, but the request found no turn in time and was never sent
	CauseStarved    Cause = "starved"    // this node lacked the CPU to be in time; says nothing about the store
)

// OfStore reports whether a cause says anything about the store: not if this node lacked CPU, or more requests arrived
// than can be decided in time.
func (c Cause) OfStore() bool { return c != CauseStarved && c != CauseOverload }

// StoreError says why a store could not decide, and whether the request may have
// been applied.
type StoreError struct {
	Cause Cause
	// Unknown: the request may have been applied, because its answer was lost. If
	// false, it was certainly not applied.
	Unknown bool
	Err     error
}

func (e *StoreError) Error() string {
	applied := "not applied"
	if e.Unknown {
		applied = "may have been applied"
	}
	return fmt.Sprintf("counter store: %s (%s): %v", e.Cause, applied, e.Err)
}

// Unwrap returns the underlying error.
func (e *StoreError) Unwrap() error { return e.Err }

// CauseOf extracts the cause of a store's error, CauseInternal if it has none.
func CauseOf(err error) Cause {
	var se *StoreError
	if errors.As(err, &se) {
		return se.Cause
	}
	return CauseInternal
}

// Check returns the first problem of a malformed request, wrapped in ErrInvalid.
// Stores call it first.
func (r *Request) Check() error {
	if len(r.Asks) == 0 || len(r.Asks) > MaxLimits {
		return fmt.Errorf("%w: a request must have 1 to %d limits, not %d", ErrInvalid, MaxLimits, len(r.Asks))
	}
	if r.Op > OpRestore && r.Op != OpClose {
		return fmt.Errorf("%w: unknown operation %s", ErrInvalid, r.Op)
	}
	if len(r.ID) > 64 {
		return fmt.Errorf("%w: id longer than 64 bytes", ErrInvalid)
	}
	if r.Op == OpRenew && r.ID == "" {
		return fmt.Errorf("%w: %s needs the id of a slot", ErrInvalid, r.Op)
	}
	if r.Op == OpSettle && r.ID == "" {
		return fmt.Errorf("%w: %s needs the id of the request to settle", ErrInvalid, r.Op)
	}
	if r.Keep < 0 || r.Keep > RecordKeepMax {
		return fmt.Errorf("%w: a record must be kept for 0 to %d ms", ErrInvalid, RecordKeepMax)
	}
	if r.Attempt < 0 || r.Attempt > MaxExact {
		return fmt.Errorf("%w: attempt out of range", ErrInvalid)
	}
	for i := range r.Asks {
		a := &r.Asks[i]
		slots := a.Limit.Algorithm.Traits().Slots
		switch {
		case a.Weight < 0 || a.Weight > MaxExact:
			return fmt.Errorf("%w: weight %d out of range", ErrInvalid, a.Weight)
		case slots && r.Op == OpCharge:
			return fmt.Errorf("%w: charge does not apply to concurrency", ErrInvalid)
		case slots && r.Op == OpTake && r.ID == "" && a.Weight > 0 && !a.Look:
			return fmt.Errorf("%w: concurrency needs an id for the slot", ErrInvalid)
		case !slots && (r.Op == OpRelease || r.Op == OpRenew):
			return fmt.Errorf("%w: %s applies to concurrency only", ErrInvalid, r.Op)
		case r.Op == OpClose && a.Limit.Kept == KeptIgnored:
			return fmt.Errorf("%w: only a bucket that may keep a limit can be closed", ErrInvalid)
		case a.Limit.Kept != KeptIgnored && (a.Limit.Algorithm != FixedWindow || a.Spans || a.Limit.Kept > KeptSet):
			return fmt.Errorf("%w: only fixed windows of one region keep a limit", ErrInvalid)
		case a.Spans && !a.Limit.Algorithm.Traits().Spans():
			return fmt.Errorf("%w: %s cannot span regions", ErrInvalid, a.Limit.Algorithm)
		}
		if a.Former != nil {
			if err := a.checkFormer(); err != nil {
				return err
			}
		}
	}
	if r.Op == OpApply || r.Op == OpRestore {
		return r.checkApply()
	}
	if len(r.Asks) == 1 {
		return nil
	}
	return r.checkKeys()
}

// checkApply returns the first problem of an OpApply or OpRestore.
func (r *Request) checkApply() error {
	switch {
	case len(r.Asks) != 1 || !r.Asks[0].Spans:
		return fmt.Errorf("%w: %s needs one limit, and that it spans regions", ErrInvalid, r.Op)
	case r.Op == OpApply && r.ID == "" || r.Sums == nil:
		return fmt.Errorf("%w: %s needs a region and its sums", ErrInvalid, r.Op)
	}
	if err := r.Sums.Check(); err != nil {
		return fmt.Errorf("%w: sums: %w", ErrInvalid, err)
	}
	return nil
}

// fewAsks is the number of keys up to which they are compared pairwise.
const fewAsks = 32

// checkKeys rejects a key that appears twice.
func (r *Request) checkKeys() error {
	if len(r.Asks) <= fewAsks {
		for i := range r.Asks {
			for j := range i {
				if r.Asks[j].Key == r.Asks[i].Key {
					return repeatedKey(r.Asks[i].Key)
				}
			}
		}
		return nil
	}
	seen := make(map[Key]struct{}, len(r.Asks))
	for i := range r.Asks {
		if _, dup := seen[r.Asks[i].Key]; dup {
			return repeatedKey(r.Asks[i].Key)
		}
		seen[r.Asks[i].Key] = struct{}{}
	}
	return nil
}

func repeatedKey(k Key) error { return fmt.Errorf("%w: key %q appears twice", ErrInvalid, k) }
