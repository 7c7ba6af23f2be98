package limiter

import (
	"errors"
	"fmt"
	"testing"
)

func TestRequestCheck_RefusesARepeatedKeyAmongFewAndMany(t *testing.T) {
	for _, n := range []int{2, fewAsks, fewAsks + 1, MaxLimits} {
		req := Request{}
		for i := range n {
			req.Asks = append(req.Asks, Ask{Key: Key(fmt.Sprintf("{user:1}|%d|fw", i)),
				Limit: Limit{Algorithm: FixedWindow, Count: 1, Window: 1}})
		}
		if err := req.Check(); err != nil {
			t.Errorf("%d different keys: %v", n, err)
		}
		req.Asks[n-1].Key = req.Asks[0].Key
		if err := req.Check(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d keys, the last again the first: %v, want ErrInvalid", n, err)
		}
	}
}
