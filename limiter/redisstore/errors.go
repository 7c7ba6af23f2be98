package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

// Classify turns an error of a whole call to Redis into a StoreError.
func Classify(err error) *limiter.StoreError {
	var known *limiter.StoreError
	if errors.As(err, &known) { // the breaker's
		return known
	}
	var reply redis.Error
	var netErr net.Error
	var opErr *net.OpError
	var undone *notDialled
	dialing := errors.As(err, &undone) || errors.As(err, &opErr) && opErr.Op == "dial"
	var untrusted *tls.CertificateVerificationError
	dialing = dialing || errors.As(err, &untrusted) // nothing is sent before the handshake
	switch {
	case errors.As(err, &reply):
		cause := script.CauseOf(reply.Error())
		// A reply outside the table may come from the middle of the script.
		return &limiter.StoreError{Cause: cause, Unknown: cause == limiter.CauseInternal,
			Err: errors.New(script.TrimTrace(reply.Error()))}
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return &limiter.StoreError{Cause: limiter.CauseBusy, Err: err}
	case errors.Is(err, redis.ErrClosed):
		return &limiter.StoreError{Cause: limiter.CauseClosed, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: !dialing, Err: err}
	case errors.Is(err, context.Canceled):
		return &limiter.StoreError{Cause: limiter.CauseCanceled, Unknown: true, Err: err}
	case dialing:
		return &limiter.StoreError{Cause: limiter.CauseConnection, Err: err}
	case errors.As(err, &netErr) && netErr.Timeout():
		return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: err}
	}
	return &limiter.StoreError{Cause: limiter.CauseConnection, Unknown: true, Err: err}
}

// callerLeft says why a caller stopped waiting. sent: its request may have been applied.
func callerLeft(ctx context.Context, sent bool) error {
	err := ctx.Err()
	if err == nil { // the caller is just leaving
		err = context.Canceled
	}
	cause := limiter.CauseTimeout
	if errors.Is(err, context.Canceled) {
		cause = limiter.CauseCanceled
	}
	return &limiter.StoreError{Cause: cause, Unknown: sent, Err: err}
}
