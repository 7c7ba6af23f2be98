package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"sluice/internal/access"
	"sluice/limiter"
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
func (s *Server) attempt(ctx context.Context, name, address string) (done func(), err error) {
	asks := []limiter.Ask{
		{Key: guardKey("pair", name, address), Limit: guardPair, Weight: 1},
		{Key: guardKey("account", name), Limit: guardAccount, Weight: 1},
		{Key: guardKey("address", address), Limit: guardAddress, Weight: 1},
	}
	asks = appendNetwork(asks, "network", address, guardNetwork)
	return s.admit(ctx, asks, "user", printable(name), "address", address)
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

// admit takes limits all together. who is for the log.
func (s *Server) admit(ctx context.Context, asks []limiter.Ask, who ...any) (done func(), err error) {
	store, res, err := s.deps.Guard, limiter.Result{}, error(nil)
	if err = s.take(ctx, store, limiter.OpTake, asks, &res); err != nil && s.deps.GuardLocal != nil {
		store = s.deps.GuardLocal
		err = s.take(ctx, store, limiter.OpTake, asks, &res)
	}
	if err != nil {
		return nil, fmt.Errorf("limit on signing in: %w", err)
	}
	if !res.Allowed {
		wait := time.Duration(max(1000, res.Limits[limiter.Strictest(res.Limits)].RetryAfter)) * time.Millisecond
		s.log.Warn("too many attempts to sign in", who...)
		return nil, &tooMany{wait: wait}
	}
	return func() {
		if err := s.take(context.WithoutCancel(ctx), store, limiter.OpRefund, asks, &res); err != nil {
			s.log.Warn("could not give back an attempt to sign in", "error", err)
		}
	}, nil
}

func (s *Server) take(ctx context.Context, store limiter.Store, op limiter.Op, asks []limiter.Ask, res *limiter.Result) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	return store.Do(ctx, &limiter.Request{Op: op, Asks: asks}, res)
}

// tooMany refuses an attempt.
type tooMany struct{ wait time.Duration }

func (e *tooMany) Error() string {
	return fmt.Sprintf("Too many attempts. Try again in %s.", e.wait.Round(time.Second))
}

// errWrong refuses a name and password without saying which was wrong.
var errWrong = errors.New("The name or the password is wrong.") //nolint:staticcheck,revive // shown to people as it stands

// authenticate finds the account of a name and password. The error is errWrong,
// a *tooMany, access.ErrBusy, or of the database or ctx. It takes as long for unknown
// names. An attempt whose password was not compared is given back.
func (s *Server) authenticate(ctx context.Context, lane access.Lane, name, password, address string) (access.User, error) {
	done, err := s.attempt(ctx, name, address)
	if err != nil {
		return access.User{}, err
	}
	u, err := s.deps.Users.GetUserByName(ctx, name)
	if err != nil && !isNotFound(err) {
		return access.User{}, err
	}
	ok, failed := s.deps.Passwords.CheckPassword(ctx, lane, u.PasswordHash, password)
	if failed != nil {
		done()
		return access.User{}, failed
	}
	if err != nil || !ok || u.Disabled {
		s.log.Warn("refused to sign in", "user", printable(name), "address", address)
		return access.User{}, errWrong
	}
	done()
	return u, nil
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

// busy is shown with a form whose password could not be hashed for now.
const busy = "Too many passwords are being checked right now, so nothing was done. Try again in a few seconds."

// refusal is the status and text with which a form is shown again, or 0 if the
// error is another page's.
func refusal(err error) (int, string) {
	var many *tooMany
	switch {
	case errors.Is(err, errWrong):
		return http.StatusUnprocessableEntity, err.Error()
	case errors.As(err, &many):
		return http.StatusTooManyRequests, many.Error()
	case errors.Is(err, access.ErrBusy):
		return http.StatusServiceUnavailable, busy
	}
	return 0, ""
}
