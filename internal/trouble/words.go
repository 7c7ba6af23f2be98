package trouble

import (
	"context"
	"errors"
	"strings"
	"syscall"
)

// NoWords is what Words says about any other error.
const NoWords = "unavailable"

// Words says in a few words for people why a server could not be reached. It contains no address and no password.
func Words(err error) string {
	var timeout interface{ Timeout() bool }
	var postgres interface{ SQLState() string }
	switch {
	case errors.As(err, &postgres):
		return stateWords(postgres.SQLState())
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to it"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return NoWords
}

// stateWords says the same about an answer of Postgres.
func stateWords(state string) string {
	switch {
	case state == "57P01", state == "57P02":
		return "server stopped"
	case state == "57P03":
		return "server starting or stopping"
	case state == "53300":
		return "too many connections"
	case state == "25006":
		return "read-only"
	case strings.HasPrefix(state, "28"):
		return "credentials rejected"
	}
	return NoWords
}
