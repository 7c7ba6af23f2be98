package limiter

import "strings"

// Bounds of a ban.
const (
	// MaxBanDenials is the largest number of denials after which a ban may begin.
	MaxBanDenials int64 = 1_000_000
	// MaxBanGrow is the largest factor between one ban and the next.
	MaxBanGrow int64 = 10
)

// A ban denies a bucket for a time after too many denials. It is a separate ask that directly follows the ask whose
// denials it counts, in the same request:
//
//	{Key: BanKey(key), Limit: BanLimit(after, within, for, grow, most)}
//
// with weight 0. A take counts a denial of the preceding ask if that ask has a weight above 0, whether or not other
// limits deny too. Denials count together if they are within some time of the first counted one. The denial that
// completes the number begins the ban at its time. A ban lasts a fixed time. If it begins soon enough after an earlier
// ban has ended, it lasts as long as that ban times a factor. Denials during a ban are not counted, so they do not
// lengthen it.
//
// The decision of a ban denies while it lasts; RetryAfter and Reset are then the time to its end. Otherwise it allows,
// and Remaining is the number of denials that are left until a ban begins. Only takes count, unless the ban's ask has
// Look. A reset of the ban's ask ends the ban and clears its count.
//
// A ban counts as fixed_window with align first_hit does. Cloudflare calls a ban without growth a mitigation timeout.

// BanLimit returns the limit of a ban: after denials (1 to MaxBanDenials) within some ms (1 to
// MaxWindow) begin it. It lasts ms (1 to MaxWindow), or grow (1 to MaxBanGrow) times the ban before,
// at most most ms (lasts to MaxWindow), if it begins less than most ms after that one has ended.
func BanLimit(after, within, lasts, grow, most int64) Limit {
	return Limit{Algorithm: Ban, Count: after, Window: within, Burst: lasts, Buckets: grow, Anchor: most}
}

// IsBan reports whether l is what BanLimit returns for settings within their bounds.
func IsBan(l Limit) bool {
	in := func(n, least, most int64) bool { return n >= least && n <= most }
	return l.Algorithm == Ban && in(l.Count, 1, MaxBanDenials) && in(l.Window, 1, MaxWindow) &&
		in(l.Burst, 1, MaxWindow) && in(l.Buckets, 1, MaxBanGrow) && in(l.Anchor, l.Burst, MaxWindow)
}

// BanKey returns the key of the ban that belongs to the bucket of a key.
func BanKey(k Key) Key { return k[:strings.LastIndexByte(string(k), '|')+1] + Key(traits[Ban].Kind) }

// IsBanKey reports whether k is the key of a ban.
func IsBanKey(k Key) bool { return strings.HasSuffix(string(k), "|"+traits[Ban].Kind) }

// WithBan returns the decision on a limit and its ban together.
func (d Decision) WithBan(ban Decision) Decision {
	d.BanBegan = ban.BanBegan
	if ban.Allowed {
		return d
	}
	later := func(own, of int64) int64 {
		if own == Never {
			return own
		}
		return max(own, of)
	}
	d.Allowed, d.Remaining, d.Delay = false, 0, 0
	d.RetryAfter, d.Reset = later(d.RetryAfter, ban.RetryAfter), later(d.Reset, ban.Reset)
	return d
}

// banKernel is the arithmetic of a ban. The state's At is the time of the first counted denial, Used the
// number of counted ones, Prev the end of the last ban, and Scale its length, 0 if there was none.
type banKernel struct{}

// left returns the time to the end of the ban, 0 if there is none.
func (banKernel) left(s *State, now int64) int64 {
	if s.Scale == 0 {
		return 0
	}
	return max(0, s.Prev-now)
}

// counted returns the denials that count together at now, and the end of their time.
func (banKernel) counted(l Limit, s *State, now int64) (denials, end int64) {
	if end = s.At + l.Window; s.Used == 0 || now >= end {
		return 0, now
	}
	return s.Used, end
}

func (banKernel) rebase(l Limit, s *State, now int64) bool {
	changed := false
	if s.Scale > 0 && s.Prev-now > s.Scale {
		s.Prev, changed = now+s.Scale, true
	}
	if s.Used > 0 && s.At-now > l.Window {
		s.At, changed = now, true
	}
	return changed
}

func (k banKernel) fits(_ Limit, s *State, now, _ int64, _ string) (bool, int64) {
	left := k.left(s, now)
	return left == 0, left
}

func (banKernel) spend(_ Limit, _ *State, now, _ int64, _ string) int64 { return now }

func (banKernel) refund(Limit, *State, int64, Charged) (int64, bool) { return 0, false }

func (k banKernel) figures(l Limit, s *State, now int64) (remaining, reset int64) {
	if left := k.left(s, now); left > 0 {
		return 0, left
	}
	denials, end := k.counted(l, s, now)
	return max(0, l.Count-denials), end - now
}

func (banKernel) refundNow(Limit, *State, int64, int64) (int64, bool) { return 0, false }

func (banKernel) expires(l Limit, s *State) int64 {
	if s.Scale == 0 {
		return s.At + l.Window
	}
	if s.Used == 0 {
		return s.Prev + l.Anchor
	}
	return max(s.Prev+l.Anchor, s.At+l.Window)
}

// count counts a denial at now, while there is no ban, and returns the length of the ban that it
// begins, 0 if it begins none.
func (k banKernel) count(l Limit, s *State, now int64) int64 {
	denials, _ := k.counted(l, s, now)
	if denials == 0 {
		s.At = now
	}
	if s.Used = denials + 1; s.Used < l.Count {
		return 0
	}
	length := l.Burst
	if s.Scale > 0 && now-s.Prev < l.Anchor {
		length = min(mulSat(s.Scale, l.Buckets), l.Anchor)
	}
	s.At, s.Used, s.Prev, s.Scale = now, 0, now+length, length
	return length
}

// countDenials counts a denied take in the bans among its asks.
func countDenials(asks []Ask, states []*State, now int64, changed []bool, out []Decision) {
	for i := 1; i < len(asks); i++ {
		denied := !out[i-1].Allowed && !out[i-1].Held && asks[i-1].Weight > 0
		if asks[i].Limit.Algorithm != Ban || asks[i].Look || !out[i].Allowed || !denied {
			continue
		}
		length := banKernel{}.count(asks[i].Limit, states[i], now)
		states[i].Exists, changed[i] = true, true
		if length > 0 {
			out[i].Allowed, out[i].RetryAfter, out[i].BanBegan = false, length, true
		}
	}
}
