package client

import (
	"maps"
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// nearLease is requests of one question that the service has charged, for this process to admit.
type nearLease struct {
	// state is how many requests were spent, in the upper half, and how many are left, -1 once the lease has ended.
	state   atomic.Int64
	asked   atomic.Bool // for the next lease
	granted int64
	weight  int64 // of one request, 0 if it has fields: then limits have several
	// sent is the time of its request, and until the end of its life, ns. The life counts from sent, so its end is
	// never late.
	sent, until int64
	began       int64 // when it was the first to be spent, ns
	within      int64 // ms
	room        int64 // requests that were left when it was granted
	shrinks     bool
	token       string
	said        Answer // by the service
	shown       atomic.Pointer[nearAnswer]

	// of the sweeper
	seen int64 // left, when it last looked
}

// nearAnswer is an answer from a lease when so many requests were left.
type nearAnswer struct {
	left, at int64
	answer   *Answer
}

// nearDenial is what the service denied, until an instant.
type nearDenial struct {
	until  int64
	answer *Answer
}

// nearFailure is why the service could not be asked, until it is asked again.
type nearFailure struct {
	until int64
	err   error
}

const (
	// nearShort is the shortest life of a lease, ms: of a shorter one the rest is given back.
	nearShort = 5
	// nearLeast is the smallest lease to ask for, nearFirst the size of the first one, in requests.
	nearLeast, nearFirst int64 = 8, 16
	// nearLeastShrinks replaces nearLeast for a lease that shrinks, if the demand is that high: rounding loses a part
	// of a request of each lease.
	nearLeastShrinks int64 = 64
	// nearPart and nearLonger bound a lease that is larger than its target: at most this part of what is left, and of
	// half the time that is left, so that leases are small again before the limit is used up or its window ends; and at
	// most so many times the target.
	nearPart, nearLonger = 16, 4
	// nearFresh is the time for which an answer is shown again although less is left, ns.
	nearFresh = ms
)

// newLease returns the lease of an answer to a reserve that was sent at sent.
func newLease(a *Answer, weight, sent int64) *nearLease {
	l := &nearLease{granted: a.Granted, weight: weight, sent: sent, within: a.SpendWithinMS,
		until: sent + (a.SpendWithinMS-1)*ms, shrinks: a.Shrinks, token: a.Reservation, said: *a, seen: -1}
	l.said.Reservation, l.said.ExpiresInMS, l.said.Granted, l.said.SpendWithinMS, l.said.Shrinks = "", 0, 0, 0, false
	if a.Remaining != nil {
		l.room = *a.Remaining / max(1, weight)
	}
	l.state.Store(a.Granted)
	l.shown.Store(&nearAnswer{left: a.Granted, at: sent - nearFresh, answer: &l.said})
	return l
}

// spend takes one request and returns how many are left.
func (l *nearLease) spend(now int64) (left int64, ok bool) {
	for now < l.until {
		was := l.state.Load()
		if left = leftOf(was); l.shrinks {
			left = min(left, l.undrained(now))
		}
		if left--; left < 0 {
			return 0, false
		}
		if l.state.CompareAndSwap(was, (was>>32+1)<<32|left) {
			return left, true
		}
	}
	return 0, false
}

// holds reports whether a request that was taken when left remained after it may still be admitted.
func (l *nearLease) holds(left, now int64) bool {
	return now < l.until && (!l.shrinks || left < l.undrained(now))
}

// undrained is how many requests a lease that shrinks has at most. The clock of the service shows whole milliseconds.
func (l *nearLease) undrained(now int64) int64 {
	over := (now-l.sent+ms-1)/ms + 1
	hi, lo := bits.Mul64(uint64(l.granted), uint64(max(0, l.within-over))) //nolint:gosec // not negative
	n, _ := bits.Div64(hi, lo, uint64(l.within))                           //nolint:gosec // not negative
	return int64(n)                                                        //nolint:gosec // at most granted
}

// low reports whether so few requests are left that it is time to ask for the next lease: a quarter, and fewer of a
// lease that drains during the wait. If the last lease took all units of the limit, another one is unlikely before a
// caller needs it.
func (l *nearLease) low(left int64) bool {
	if l.granted < nearLeast {
		return false
	}
	if l.shrinks {
		return left*16 <= l.granted
	}
	return left*4 <= l.granted
}

// end ends the lease and returns how many requests were spent of it; ok is false if it had ended.
func (l *nearLease) end() (spent int64, ok bool) {
	was := l.state.Swap(-1)
	return was >> 32, was >= 0
}

// leftOf returns how many requests are left in a state, -1 if the lease has ended.
func leftOf(state int64) int64 { return state << 32 >> 32 }

// answer returns an answer that shows what is left, as of the last millisecond.
func (l *nearLease) answer(left, now int64) *Answer {
	s := l.shown.Load()
	if l.weight == 0 || s.left == left || now-s.at < nearFresh {
		return s.answer
	}
	is := &nearAnswer{left: left, at: now, answer: l.show(left * l.weight)}
	l.shown.CompareAndSwap(s, is)
	return is.answer
}

// show returns what the service said with so many more units remaining.
func (l *nearLease) show(units int64) *Answer {
	a := l.said
	a.Figures = a.giving(units)
	a.Limits = make([]LimitAnswer, len(l.said.Limits))
	for i, limit := range l.said.Limits {
		limit.Figures = limit.giving(units)
		a.Limits[i] = limit
	}
	a.Headers = maps.Clone(l.said.Headers)
	for name, value := range a.Headers {
		switch name {
		case "X-RateLimit-Remaining":
			a.Headers[name] = addTo(value, units)
		case "RateLimit":
			a.Headers[name] = addToItems(value, units)
		}
	}
	return &a
}

// giving returns the figures with so many units less used.
func (f Figures) giving(units int64) Figures {
	if f.Remaining != nil && f.Used != nil {
		f.Remaining, f.Used = new(*f.Remaining+units), new(*f.Used-units)
	}
	return f
}

// addTo adds units to a number at the start of a text.
func addTo(text string, units int64) string {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil {
		return text
	}
	return strconv.FormatInt(n+units, 10) + text[end:]
}

// addToItems adds units to the parameter r of each item of the header RateLimit. The names of policies are quoted.
func addToItems(value string, units int64) string {
	parts := strings.Split(value, `";r=`)
	for i := 1; i < len(parts); i++ {
		parts[i] = addTo(parts[i], units)
	}
	return strings.Join(parts, `";r=`)
}

// size returns the number of requests that leases should hold, which is the demand in target at the rate at which this
// one was spent, and the number for the next lease. While much of the limits is left, the next lease holds more. It may
// end with this one. last is the former number.
func (l *nearLease) size(last, now int64, target time.Duration) (want, next int64) {
	spent := max(0, l.state.Load()) >> 32
	rate := float64(spent) / float64(max(ms, now-l.began))
	want = min(max(int64(rate*float64(target)), nearLeast), 4*last, maxTimes)
	if now >= l.until || l.shrinks {
		return want, want
	}
	rest := int64(rate * float64(l.until-now))
	next = max(want, min(l.room/nearPart, rest/2, nearLonger*want, maxTimes))
	return want, min(next, max(rest, nearLeast))
}

// maxTimes is the largest number of requests that the service grants.
const maxTimes = 1_000_000
