package decide

import (
	"context"
	"errors"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
)

// DescriptorQuestion is one call of Envoy: several descriptors of a domain, each with a rule of its own. They are taken
// together or not at all, except for reports; see AskedDescriptor.
type DescriptorQuestion struct {
	// Domain must not be empty.
	Domain      string
	Descriptors []AskedDescriptor
	// Look: nothing is spent, charged, refunded or released.
	Look bool
}

// AskedDescriptor is one descriptor of a call.
type AskedDescriptor struct {
	Entries []entries.Entry
	// Addend is in units, 0 to limiter.MaxExact; 0 looks without spending.
	Addend int64
	// Explicit: the caller sent the addend, for the descriptor or for the call. A rule with addend charge is then charged
	// whether or not it fits. Without an explicit addend nothing is a report.
	Explicit bool
	// Negative: the addend is given back. For a rule with concurrency, it releases the bucket's oldest lease.
	Negative bool
	// Limit replaces the limit of the rule, or limits a descriptor without a rule if its domain is known. It is nil for
	// the rule's own.
	Limit *SentLimit
}

// SentLimit is a limit that comes with a descriptor.
type SentLimit struct {
	// Count is in units per Window.
	Count int64
	// Window is in milliseconds, more than 0.
	Window int64
}

// DescriptorAnswer is the answer to a DescriptorQuestion. The embedded Answer is that of the call as a whole: its
// verdict, and the limits from which headers and bodies for the client are made.
type DescriptorAnswer struct {
	Answer
	// Statuses has one element for each descriptor, in order.
	Statuses []DescriptorStatus
}

// DescriptorStatus is the decision on one descriptor.
type DescriptorStatus struct {
	State DescriptorState
	// Over: the descriptor is over its limit, and the rule enforces that.
	Over bool
	// Rule is nil if no rule applies.
	Rule *rules.Compiled
	// Limit is the index in Answer.Limits, -1 if no limit applies.
	Limit int
	// Remaining is the number of units that remain after this descriptor, 0 or more. Other descriptors of the same bucket
	// may have spent more of it.
	Remaining int64
}

// DescriptorState is how a descriptor was treated.
type DescriptorState uint8

// The states.
const (
	// StateNoRule: no rule applies.
	StateNoRule DescriptorState = iota
	// StateUnlimited: the rule says unlimited, or an override of its key does.
	StateUnlimited
	// StateReplaced: the rule of another descriptor of the call replaces its rule.
	StateReplaced
	// StateLimited: a limit applies.
	StateLimited
)

// DoDescriptors answers a call. The error is ErrNoSet, or that of the store for refunds and releases, a
// *limiter.StoreError. It keeps nothing of q; the slices of a are reused.
func (c *Checker) DoDescriptors(_ context.Context, _ *DescriptorQuestion, _ *DescriptorAnswer) error {
	return &limiter.StoreError{Cause: limiter.CauseInternal, Err: errors.New("not implemented")}
}
