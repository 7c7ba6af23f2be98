package kit

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/web/view"
)

// Limits on sign-in attempts. A successful attempt is refunded. They are logs, which hold in every window: a counter
// admits up to twice as many around the end of a window.
var (
	// guardPair limits guesses at one account from one address.
	guardPair = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 5, Window: 5 * 60_000}
	// guardAccount limits guesses at one account from all addresses. It is wide, because it also affects the owner.
	guardAccount = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 50, Window: 15 * 60_000}
	// guardAddress limits guesses at all accounts from one address.
	guardAddress = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 30, Window: 15 * 60_000}
	// guardNetwork limits guesses from an IPv6 /48, which one customer of a provider may own, over all of its 65,536
	// addresses as addressOf counts them.
	guardNetwork = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 60, Window: 15 * 60_000}
	// guardKnown limits guesses at one account from a browser that has signed in to it before, in place of the limits
	// above: whoever guesses elsewhere does not lock its owner out.
	guardKnown = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 5, Window: 5 * 60_000}
	// guardSession limits guesses in one session, by which a signed-in person confirms an act.
	guardSession = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 5, Window: 5 * 60_000}
	// guardSignOn limits visits to the single sign-on provider from one address. Going and coming back count one each.
	guardSignOn = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 40, Window: 15 * 60_000}
	// guardSignOnNetwork is guardSignOn for an IPv6 /48.
	guardSignOnNetwork = limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 80, Window: 15 * 60_000}
)

// guardTimeout bounds one call to the store.
const guardTimeout = 250 * time.Millisecond

// guardKey is the key of one of the console's own buckets. No descriptor and no direct key produces it, so callers of
// the API cannot reach it.
func guardKey(what string, values ...string) limiter.Key {
	b := []byte("{console:" + what)
	for _, v := range values {
		b = append(b, ':')
		b = limiter.AppendHashed(b, v)
	}
	return limiter.Key(append(b, "}||sl"...))
}

// signInLimits are the limits on the attempt of a visitor to sign in to an account, which is zero if none has the name.
func (v *Visit) signInLimits(name string, u *access.User) []limiter.Ask {
	if nonce := v.knownBrowser(u); nonce != "" {
		return []limiter.Ask{{Key: guardKey("known", view.Digits(u.ID), nonce), Limit: guardKnown, Weight: 1}}
	}
	address := v.kit.addressOf(v.RealIP())
	return appendNetwork([]limiter.Ask{
		{Key: guardKey("pair", name, address), Limit: guardPair, Weight: 1},
		{Key: guardKey("account", name), Limit: guardAccount, Weight: 1},
		{Key: guardKey("address", address), Limit: guardAddress, Weight: 1},
	}, "network", address, guardNetwork)
}

// appendNetwork adds the limit on the IPv6 network of /48 that an address is in.
func appendNetwork(asks []limiter.Ask, what, address string, limit limiter.Limit) []limiter.Ask {
	p, err := netip.ParsePrefix(address)
	if err != nil { // IPv4: see addressOf
		return asks
	}
	wide := netip.PrefixFrom(p.Addr(), 48).Masked().String()
	return append(asks, limiter.Ask{Key: guardKey(what, wide), Limit: limit, Weight: 1})
}

// AdmitSignOn takes the limits on going to the single sign-on provider and on coming back. refund gives one back.
func (v *Visit) AdmitSignOn() (refund func(), err error) {
	address := v.kit.addressOf(v.RealIP())
	asks := []limiter.Ask{{Key: guardKey("sso", address), Limit: guardSignOn, Weight: 1}}
	return v.kit.takeLimits(v.Ctx, appendNetwork(asks, "sso-network", address, guardSignOnNetwork), "address", v.RealIP())
}

// errUndecided means that no store decided the limits on an attempt in time. It is shown with the form.
var errUndecided = errors.New( //nolint:staticcheck // shown to people as it stands
	"The number of attempts could not be checked in time, so nothing was changed. " +
		"Try again in a second.")

// takeLimits takes all limits or none. The error is a *tooMany if there were too many attempts, errUndecided, or that
// of ctx. refund gives the attempt back; call it on success. who is for the log.
func (k *Kit) takeLimits(ctx context.Context, asks []limiter.Ask, who ...any) (refund func(), err error) {
	store, res, err := k.Guard, limiter.Result{}, error(nil)
	if err = k.take(ctx, store, limiter.OpTake, asks, &res); err != nil && k.GuardLocal != nil {
		store = k.GuardLocal
		err = k.take(ctx, store, limiter.OpTake, asks, &res)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // the visitor has left
	}
	if err != nil {
		k.Logger.Warn("could not decide the limits on signing in", append(who, "error", err)...)
		return nil, errUndecided
	}
	if !res.Allowed {
		k.Logger.Warn("too many attempts to sign in", who...)
		return nil, &tooMany{wait: time.Duration(k.underWay.wait(asks, res.Limits)) * time.Millisecond}
	}
	return func() {
		if err := k.take(context.WithoutCancel(ctx), store, limiter.OpRefund, asks, &res); err != nil {
			k.Logger.Warn("could not give back an attempt to sign in", "error", err)
		}
	}, nil
}

// attempts counts the attempts of this node that are under way, by the limits that they have taken. A right one is
// refunded at its end, which is near. The zero value is empty, and it is safe for concurrent use.
type attempts struct {
	mu    sync.Mutex
	units map[limiter.Key]int64
}

// begin counts an attempt until end is called.
func (a *attempts) begin(asks []limiter.Ask) (end func()) {
	a.add(asks, 1)
	return func() { a.add(asks, -1) }
}

func (a *attempts) add(asks []limiter.Ask, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.units == nil {
		a.units = map[limiter.Key]int64{}
	}
	for i := range asks {
		key := asks[i].Key
		if a.units[key] += n; a.units[key] == 0 {
			delete(a.units, key)
		}
	}
}

// wait is how long a denied attempt should wait, in ms, at least a second: as long as the limits say that are full even
// without the attempts under way.
func (a *attempts) wait(asks []limiter.Ask, limits []limiter.Decision) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := int64(1000)
	for i := range limits {
		if d := &limits[i]; !d.Allowed && d.Used-a.units[asks[i].Key]+asks[i].Weight > asks[i].Limit.Count {
			wait = max(wait, d.RetryAfter)
		}
	}
	return wait
}

func (k *Kit) take(ctx context.Context, store limiter.Store, op limiter.Op, asks []limiter.Ask,
	res *limiter.Result) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	return store.Do(ctx, &limiter.Request{Op: op, Asks: asks}, res)
}

// tooMany is the error of an attempt over a limit.
type tooMany struct{ wait time.Duration }

func (e *tooMany) Error() string {
	return "Too many attempts. Try again in " + view.LengthUp(e.wait) + "."
}

// printable is a typed name for the log. People sometimes type their password into the name field, so anything that
// cannot be a name is replaced.
func printable(name string) string {
	if len(name) > 63 {
		return "(not a name)"
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '_' && r != '-' && r != '@' {
			return "(not a name)"
		}
	}
	return name
}

// addressOf returns the address by which sign-in attempts are counted: an IPv4 address, which may be behind NAT64, or
// an IPv6 /64.
func (k *Kit) addressOf(text string) string {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return "unknown"
	}
	if a = k.Options().NormalAddr(a); a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return "unknown"
	}
	return p.String()
}
