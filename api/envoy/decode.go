package envoy

import (
	"errors"
	"fmt"
	"math"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
)

// maxMessage is the most bytes of a message.
const maxMessage = 64 << 10

// decodeLimit reads a RateLimitRequest.
func decodeLimit(message []byte) (*ratelimitv3.RateLimitRequest, error) {
	r := &ratelimitv3.RateLimitRequest{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(message, r); err != nil {
		return nil, errors.New("the message is not a valid RateLimitRequest: it is no protobuf, or has a text " +
			"that is not UTF-8")
	}
	return r, nil
}

// addendOf returns the units of a descriptor, and whether the caller sent their number.
func addendOf(r *ratelimitv3.RateLimitRequest, d *commonv3.RateLimitDescriptor) (units uint64, explicit bool) {
	if own := d.GetHitsAddend(); own != nil {
		return own.GetValue(), true
	}
	units = uint64(r.GetHitsAddend())
	return max(1, units), units > 0
}

// unitOf returns the largest unit that divides the window and how often it does, or zeros.
func unitOf(window int64) (unit uint64, multiplier int64) {
	for _, u := range entries.Units {
		if window >= u.Window && window%u.Window == 0 && window/u.Window <= math.MaxUint32 {
			return u.Number, window / u.Window
		}
	}
	return 0, 0
}

// windowOf returns the window of a limit that comes with a descriptor, in ms.
func windowOf(l *commonv3.RateLimitDescriptor_RateLimitOverride) (int64, error) {
	for _, u := range entries.Units {
		if uint64(l.GetUnit()) != u.Number { //nolint:gosec // a negative number is no unit
			continue
		}
		multiplier := max(1, int64(l.GetUnitMultiplier().GetValue()))
		if multiplier > limiter.MaxWindow/u.Window {
			return 0, fmt.Errorf("the window of a descriptor's limit has at most %d ms", limiter.MaxWindow)
		}
		return u.Window * multiplier, nil
	}
	return 0, errors.New("the unit of a descriptor's limit is unknown")
}

// checkLimit refuses calls without a meaning. A rule has at most rules.MaxEntries entries, so more match none.
func checkLimit(r *ratelimitv3.RateLimitRequest) error {
	switch n := len(r.GetDescriptors()); {
	case r.GetDomain() == "":
		return errors.New("the domain is empty")
	case n == 0:
		return errors.New("the call has no descriptors")
	case n > decide.MaxDescriptors:
		return fmt.Errorf("a call has at most %d descriptors", decide.MaxDescriptors)
	}
	for _, d := range r.GetDescriptors() {
		if len(d.GetEntries()) > rules.MaxEntries {
			return fmt.Errorf("a descriptor has at most %d entries", rules.MaxEntries)
		}
		if units, _ := addendOf(r, d); units > uint64(limiter.MaxExact) {
			return fmt.Errorf("hits_addend is at most %d", limiter.MaxExact)
		}
		if l := d.GetLimit(); l != nil {
			if _, err := windowOf(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// question writes the call as a question to the engine.
func (x *buffers) question() error {
	r, q := x.call, &x.q
	q.Domain, q.Descriptors = r.GetDomain(), q.Descriptors[:0]
	x.readEntries()
	for i, d := range r.GetDescriptors() {
		units, explicit := addendOf(r, d)
		asked := decide.AskedDescriptor{
			Entries: x.lists[i], Addend: int64(units), Explicit: explicit, //nolint:gosec // checked
			Negative: d.GetIsNegativeHits(),
		}
		if l := d.GetLimit(); l != nil {
			window, err := windowOf(l)
			if err != nil {
				return err
			}
			asked.Limit = &decide.SentLimit{Count: int64(l.GetRequestsPerUnit()), Window: window}
		}
		q.Descriptors = append(q.Descriptors, asked)
	}
	return nil
}

// readEntries fills x.lists with the entries of each descriptor.
func (x *buffers) readEntries() {
	x.entries, x.lists = x.entries[:0], x.lists[:0]
	for _, d := range x.call.GetDescriptors() {
		for _, e := range d.GetEntries() {
			x.entries = append(x.entries, entries.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
	}
	rest := x.entries
	for _, d := range x.call.GetDescriptors() {
		n := len(d.GetEntries())
		x.lists = append(x.lists, rest[:n:n])
		rest = rest[n:]
	}
}
