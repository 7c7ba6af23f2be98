package decide

import (
	"encoding/base64"
	"testing"

	"sluice/limiter"
)

// A release without an id would end the oldest lease, whoever holds it.
func TestLease_ATokenNamesEachLease(t *testing.T) {
	token := func(id string) string {
		key := "{u}|7|" + limiter.Concurrency.Kind()
		raw := append([]byte{leaseVersion, leaseShared, 1, byte(len(id))}, id...)
		raw = append(append(raw, 1, byte(len(key))), key...)
		return base64.RawURLEncoding.EncodeToString(append(raw, 1, 1)) // limit and window
	}
	if _, _, err := parseLease(token("a"), limiter.OpRelease); err != nil {
		t.Errorf("with an id: %v", err)
	}
	if _, _, err := parseLease(token(""), limiter.OpRelease); err == nil {
		t.Error("a token without an id releases leases")
	}
}

func FuzzLeaseToken(f *testing.F) {
	f.Add([]byte{1, 0, 1})
	f.Add([]byte{1, 2, 1, 1, 1, 'a', 1, 10, '{', 'u', '}', '|', '7', '|', 'c', 'c', 1, 1})
	f.Add([]byte{1, 0, 1, 1, 'a', 1, 10, '{', 'u', '}', '|', '7', '|', 'c', 'c', 1, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		shared, local, err := parseLease(base64.RawURLEncoding.EncodeToString(raw), limiter.OpRelease)
		if err != nil {
			return
		}
		for _, call := range append(shared, local...) {
			if call.Request.Check() != nil {
				t.Fatalf("a malformed request came out: %+v", call.Request)
			}
		}
	})
}
