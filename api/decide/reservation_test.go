package decide

import (
	"bytes"
	"encoding/base64"
	"errors"
	"testing"

	"sluice/limiter"
)

func TestReservation_IsOpenedByItsSecretOnly(t *testing.T) {
	r := reservation{expires: epoch}
	token := r.seal(bytes.Repeat([]byte("s"), 32))
	if got, err := openReservation(token, [][]byte{bytes.Repeat([]byte("s"), 32)}); err != nil || got.expires != epoch {
		t.Fatalf("its own secret: %+v, %v", got, err)
	}
	if _, err := openReservation(token, [][]byte{bytes.Repeat([]byte("t"), 32)}); !errors.Is(err, ErrBadReservation) {
		t.Errorf("another secret opened it: %v", err)
	}
}

// A node of the version before reads version 1 alone: it must refuse names, which it would take for fields.
func TestReservation_NamesHaveAVersionOfTheirOwn(t *testing.T) {
	secret := bytes.Repeat([]byte("s"), 32)
	for want, ask := range map[byte]reservedAsk{1: {source: "bytes"}, 2: {source: "per-ip", isNamed: true}} {
		l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 5, Window: 9}
		ask.Ask = limiter.Ask{Key: "{a}|fw", Weight: 3, Limit: l}
		r := reservation{expires: epoch, calls: []reservedCall{{id: "x", asks: []reservedAsk{ask}}}}
		token := r.seal(secret)
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || raw[0] != want {
			t.Errorf("version %d, want %d", raw[0], want)
		}
		got, err := openReservation(token, [][]byte{secret})
		if err != nil || got.calls[0].asks[0].isNamed != ask.isNamed || got.calls[0].asks[0].source != ask.source {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
