package decide

import (
	"encoding/base64"
	"testing"

	"sluice/limiter"
)

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
