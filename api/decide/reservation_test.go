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

func TestReservation_DistinguishesNamesFromFields(t *testing.T) {
	secret := bytes.Repeat([]byte("s"), 32)
	for _, ask := range []reservedAsk{{source: "bytes"}, {source: "per-ip", isNamed: true}} {
		l := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 5, Window: 9}
		ask.Ask = limiter.Ask{Key: "{a}|fw", Weight: 3, Limit: l}
		r := reservation{expires: epoch, calls: []reservedCall{{id: "x", asks: []reservedAsk{ask}}}}
		got, err := openReservation(r.seal(secret), [][]byte{secret})
		if err != nil || got.calls[0].asks[0].isNamed != ask.isNamed || got.calls[0].asks[0].source != ask.source {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// A token of another version is refused, although its seal is right.
func TestReservation_OfAnotherVersionIsRefused(t *testing.T) {
	secret := bytes.Repeat([]byte("s"), 32)
	raw, err := base64.RawURLEncoding.DecodeString((&reservation{expires: epoch}).seal(secret))
	if err != nil {
		t.Fatal(err)
	}
	raw = raw[:len(raw)-sealSize]
	raw[0]++
	token := base64.RawURLEncoding.EncodeToString(append(raw, sealOf(secret, raw)...))
	if _, err := openReservation(token, [][]byte{secret}); !errors.Is(err, ErrBadReservation) {
		t.Errorf("got %v", err)
	}
}
