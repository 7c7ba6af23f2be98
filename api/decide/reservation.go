package decide

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"sluice/internal/wire"
	"sluice/limiter"
)

// A reservation token lists what one allowed answer charged by an estimate, so that it can be
// settled without the descriptor. It is base64url of
//
//	version (3), beginning and expiry in ms since the epoch, percent of the estimate that stays charged at the expiry,
//	name on the list, request id, granted requests, whether they shrink (1 or 0), calls, leases, denier,
//	seal (16)
//	calls: number; each: kind, id, asks
//	asks: number; each: flags, source, pool, key, weight, limit; then, if a flag says so, name, life and margin of the
//	high-water mark
//	limit: algorithm, align, count, window_ms, burst, buckets, spare, anchor_ms; a flag says whether its periods are kept
//	leases: number; each: id, number of asks; each: key, count, window_ms
//	denier: 0, or the place (from 1) of the ask that denied a grant, and behind it how many units of each ask are used
//
// with numbers as uvarints (the anchor as a varint) and texts after their lengths. The seal is
// the first bytes of an HMAC-SHA-256 with a secret that all nodes share. It is necessary because
// a forged token could name any bucket with any limit.
const (
	reservationVersion = 3
	sealSize           = 16
	// maxReservation bounds a token, in bytes; a settlement's body holds one.
	maxReservation = 56 << 10
	// reservable bounds the keys of a request that can be reserved, in bytes, so that its token
	// does not exceed maxReservation.
	reservable = 24 << 10
	askSize    = 48 // the approximate size of an ask without its key
	// sealable bounds the asks of a token that is not too long, in bytes before base64. sealedAsk is the most that one
	// has beside its texts, with what is used of it.
	sealable  = maxReservation*3/4 - 384
	sealedAsk = 60
)

// ErrBadReservation means that a token was not created by this service, or was truncated.
var ErrBadReservation = errors.New("not a reservation token")

// Kinds of a call in a reservation.
const (
	resEnforced = 0 // settles what a take recorded
	resApart    = 1 // the same for a shadow rule or candidate, which does not affect the answer
	// resBare is added if the take spent nothing, so that there is no record.
	resBare = 2
	// resMore settles what a renewal took beside the enforced limits.
	resMore = 4
)

// reservation is the content of a token.
type reservation struct {
	began, expires int64
	keeps          int64  // percent of the estimate that stays charged at the expiry
	name           string // on the list of open reservations, "" if it is not there
	request        string // the request id of the reserve, "" for none
	granted        int64  // requests that the caller decides, 0 if it decides none
	shrinks        bool
	calls          []reservedCall
	leases         []limiter.Call // OpRelease
	// denier is the place (from 1) of the ask of the only call that denied a grant, 0 if none did. Nothing was charged
	// then, and the token is for the denials of its caller. used are the units that count of each ask.
	denier int64
	used   []int64
}

// reservedCall is one call of the store that charged something.
type reservedCall struct {
	kind uint8
	id   string
	asks []reservedAsk
}

// reservedAsk is one limit that was charged.
type reservedAsk struct {
	limiter.Ask
	// source is the member of fields with the weight, "" for the weight of the request. If isNamed is
	// set, it is the name of one of several direct limits, whose weight is that of the request.
	source  string
	isNamed bool
	// pool is the number (from 1) of the limit's pool among the pools of the call, 0 for none.
	// The ask of a pool has isPool set.
	pool   int64
	isPool bool
}

// Flags of an ask.
const (
	askLook = 1 << iota
	askPool
	askNamed
	askSpans
	askMarked
	askPerPeriod
	askKept // the bucket may keep a limit, which the settlement obeys
)

// seal writes a token.
func (r *reservation) seal(secret []byte) string {
	b := []byte{reservationVersion}
	for _, v := range []int64{r.began, r.expires, r.keeps} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	b = binary.AppendUvarint(wire.AppendText(wire.AppendText(b, r.name), r.request), uint64(r.granted))
	shrinks := byte(0)
	if r.shrinks {
		shrinks = 1
	}
	b = append(b, shrinks)
	b = binary.AppendUvarint(b, uint64(len(r.calls)))
	for i := range r.calls {
		c := &r.calls[i]
		b = wire.AppendText(append(b, c.kind), c.id)
		b = binary.AppendUvarint(b, uint64(len(c.asks)))
		for k := range c.asks {
			b = c.asks[k].append(b)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(r.leases)))
	for i := range r.leases {
		req := &r.leases[i].Request
		b = binary.AppendUvarint(wire.AppendText(b, req.ID), uint64(len(req.Asks)))
		for k := range req.Asks {
			b = wire.AppendText(b, string(req.Asks[k].Key))
			b = binary.AppendUvarint(b, uint64(req.Asks[k].Limit.Count))
			b = binary.AppendUvarint(b, uint64(req.Asks[k].Limit.Window))
		}
	}
	b = binary.AppendUvarint(b, uint64(r.denier))
	for _, used := range r.used {
		b = binary.AppendUvarint(b, uint64(used))
	}
	return base64.RawURLEncoding.EncodeToString(append(b, sealOf(secret, b)...))
}

func sealOf(secret, b []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("reservation\x00"))
	mac.Write(b)
	return mac.Sum(nil)[:sealSize]
}

func (a *reservedAsk) append(b []byte) []byte {
	flags := byte(0)
	if a.Look {
		flags |= askLook
	}
	if a.isPool {
		flags |= askPool
	}
	if a.isNamed {
		flags |= askNamed
	}
	if a.Spans {
		flags |= askSpans
	}
	if a.HighWater != nil {
		flags |= askMarked
	}
	if a.Limit.PerPeriod {
		flags |= askPerPeriod
	}
	if a.Limit.Kept != limiter.KeptIgnored {
		flags |= askKept
	}
	b = wire.AppendText(append(b, flags), a.source)
	b = binary.AppendUvarint(b, uint64(a.pool))
	b = wire.AppendText(b, string(a.Key))
	b = binary.AppendUvarint(b, uint64(a.Weight))
	l := &a.Limit
	b = append(b, byte(l.Algorithm), byte(l.Align))
	for _, v := range []int64{l.Count, l.Window, l.Burst, l.Buckets, a.Spare} {
		b = binary.AppendUvarint(b, uint64(v))
	}
	b = binary.AppendVarint(b, l.Anchor)
	if h := a.HighWater; h != nil {
		b = wire.AppendText(b, h.Name)
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(h.Life)), uint64(h.Margin))
	}
	return b
}

// openReservation reads a token that was sealed with one of the secrets.
func openReservation(token string, secrets [][]byte) (*reservation, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(token) > maxReservation || len(b) < sealSize+2 {
		return nil, ErrBadReservation
	}
	b, seal := b[:len(b)-sealSize], b[len(b)-sealSize:]
	genuine := false
	for _, s := range secrets {
		genuine = genuine || hmac.Equal(seal, sealOf(s, b))
	}
	if !genuine || b[0] != reservationVersion {
		return nil, ErrBadReservation
	}
	r := wire.Read(b[1:])
	out := &reservation{began: r.Number(limiter.MaxExact), expires: r.Number(limiter.MaxExact), keeps: r.Number(100),
		name: r.Text(64), request: r.Text(64), granted: r.Number(limiter.MaxExact), shrinks: r.Byte() == 1}
	for range r.Number(limiter.MaxLimits) {
		c := reservedCall{kind: r.Byte(), id: r.Text(64)}
		for range r.Number(limiter.MaxLimits) {
			c.asks = append(c.asks, readAsk(&r))
		}
		out.calls = append(out.calls, c)
	}
	for range r.Number(limiter.MaxLimits) {
		req := limiter.Request{Op: limiter.OpRelease, ID: r.Text(64)}
		for range r.Number(limiter.MaxLimits) {
			key := limiter.Key(r.Text(maxLeaseKey))
			l := limiter.Limit{Algorithm: limiter.Concurrency, Count: r.Number(limiter.MaxSlots),
				Window: r.Number(limiter.MaxWindow)}
			req.Asks = append(req.Asks, limiter.Ask{Key: key, Limit: l})
		}
		out.leases = append(out.leases, limiter.Call{Request: req})
	}
	if out.denier = r.Number(limiter.MaxLimits); out.denier > 0 {
		if len(out.calls) != 1 || out.denier > int64(len(out.calls[0].asks)) {
			return nil, ErrBadReservation
		}
		for range out.calls[0].asks {
			out.used = append(out.used, r.Number(limiter.MaxExact))
		}
	}
	if !r.Done() {
		return nil, ErrBadReservation
	}
	return out, nil
}

// readAsk reads what reservedAsk.append wrote.
func readAsk(r *wire.Reader) (a reservedAsk) {
	flags := r.Byte()
	a.Look, a.isPool, a.isNamed, a.Spans = flags&askLook != 0, flags&askPool != 0, flags&askNamed != 0, flags&askSpans != 0
	if flags&askKept != 0 {
		a.Limit.Kept = limiter.KeptObeyed
	}
	a.source = r.Text(MaxText)
	a.pool = r.Number(limiter.MaxLimits)
	a.Key = limiter.Key(r.Text(maxLeaseKey))
	a.Weight = r.Number(limiter.MaxExact)
	a.Limit.Algorithm, a.Limit.Align = limiter.Algorithm(r.Byte()), limiter.Align(r.Byte())
	for _, dst := range []*int64{&a.Limit.Count, &a.Limit.Window, &a.Limit.Burst, &a.Limit.Buckets, &a.Spare} {
		*dst = r.Number(limiter.MaxExact)
	}
	a.Limit.Anchor, a.Limit.PerPeriod = r.Varint(), flags&askPerPeriod != 0
	if flags&askMarked != 0 {
		a.HighWater = &limiter.HighWater{Name: r.Text(64), Life: r.Number(limiter.MaxExact),
			Margin: r.Number(limiter.MaxExact)}
	}
	return a
}
