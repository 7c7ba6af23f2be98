package decide

import (
	"bytes"
	"errors"
	"testing"
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
