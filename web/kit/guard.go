package kit

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"sluice/limiter"
	"sluice/web/view"
)

// What signing in is limited to. An attempt that succeeds is given back.
var (
	// guardPair slows whoever guesses at one account.
	guardPair = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 5, Window: 5 * 60_000}
	// guardAccount slows many addresses that guess at one account. It is wide,
	// because it also keeps the account's owner out.
	guardAccount = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 50, Window: 15 * 60_000}
	// guardAddress slows one address that guesses at many accounts.
	guardAddress = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 30, Window: 15 * 60_000}
	// guardNetwork slows an IPv6 network of /48, which one customer of a provider may
	// have whole, over all of its 65,536 addresses as addressOf makes them.
	guardNetwork = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 60, Window: 15 * 60_000}
	// guardSignOn slows one address that goes to the provider of single sign-on and
	// does not come back signed in. Going and coming back count one each.
	guardSignOn = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 40, Window: 15 * 60_000}
	// guardSignOnNetwork slows an IPv6 network of /48 that does so.
	guardSignOnNetwork = limiter.Limit{Algorithm: limiter.SlidingWindowCounter, Count: 80, Window: 15 * 60_000}
)

// guardTimeout bounds one take of the limits.
const guardTimeout = 250 * time.Millisecond

// guardKey names a bucket of the console's own. "console" is no fact of a
// descriptor and no direct key, so no caller of the API can reach it.
func guardKey(what string, values ...string) limiter.Key {
	b := []byte("{console:" + what)
	for _, v := range values {
		b = append(b, ':')
		b = limiter.AppendHashed(b, v)
	}
	return limiter.Key(append(b, "}||sc"...))
}

// attempt takes the limits on giving a password. The error is a 429 page if
// there were too many. done gives the attempt back; call it on success.
func (k *Kit) attempt(ctx context.Context, name, address string) (done func(), err error) {
	asks := []limiter.Ask{
		{Key: guardKey("pair", name, address), Limit: guardPair, Weight: 1},
		{Key: guardKey("account", name), Limit: guardAccount, Weight: 1},
		{Key: guardKey("address", address), Limit: guardAddress, Weight: 1},
	}
	asks = appendNetwork(asks, "network", address, guardNetwork)
	return k.admit(ctx, asks, "user", printable(name), "address", address)
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

// AdmitSignOn takes the limits on going to the provider of single sign-on, and on coming
// back. done gives it back.
func (v *Visit) AdmitSignOn() (done func(), err error) {
	address := addressOf(v.RealIP())
	asks := []limiter.Ask{{Key: guardKey("sso", address), Limit: guardSignOn, Weight: 1}}
	return v.kit.admit(v.Ctx, appendNetwork(asks, "sso-network", address, guardSignOnNetwork), "address", v.RealIP())
}

// admit takes limits all together. who is for the log.
func (k *Kit) admit(ctx context.Context, asks []limiter.Ask, who ...any) (done func(), err error) {
	store, res, err := k.Guard, limiter.Result{}, error(nil)
	if err = k.take(ctx, store, limiter.OpTake, asks, &res); err != nil && k.GuardLocal != nil {
		store = k.GuardLocal
		err = k.take(ctx, store, limiter.OpTake, asks, &res)
	}
	if err != nil {
		return nil, fmt.Errorf("limit on signing in: %w", err)
	}
	if !res.Allowed {
		wait := time.Duration(max(1000, res.Limits[limiter.Strictest(res.Limits)].RetryAfter)) * time.Millisecond
		k.Logger.Warn("too many attempts to sign in", who...)
		return nil, &tooMany{wait: wait}
	}
	return func() {
		if err := k.take(context.WithoutCancel(ctx), store, limiter.OpRefund, asks, &res); err != nil {
			k.Logger.Warn("could not give back an attempt to sign in", "error", err)
		}
	}, nil
}

func (k *Kit) take(ctx context.Context, store limiter.Store, op limiter.Op, asks []limiter.Ask, res *limiter.Result) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	return store.Do(ctx, &limiter.Request{Op: op, Asks: asks}, res)
}

// tooMany refuses an attempt.
type tooMany struct{ wait time.Duration }

func (e *tooMany) Error() string {
	return fmt.Sprintf("Too many attempts. Try again in %s.", waitWords(e.wait))
}

// waitWords is a wait for people, rounded up: "45 seconds", "5 minutes".
func waitWords(wait time.Duration) string {
	if wait < 2*time.Minute {
		return view.Plural(int64((wait+time.Second-1)/time.Second), "second")
	}
	return view.Plural(int64((wait+time.Minute-1)/time.Minute), "minute")
}

// printable is a name that someone typed, made fit for a log. People type their
// password there now and then, so only what could be a name is kept.
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

// addressOf is who is counted as one address when signing in: an IPv4 address,
// or an IPv6 network of 64 bits.
func addressOf(text string) string {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return "unknown"
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return "unknown"
	}
	return p.String()
}
