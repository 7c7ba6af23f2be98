package script

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// A script that never ends is a Redis that is lost to everyone.
func TestScript_ACallThatIsNoneOfOursEnds(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: testenv.Redis(t).Addr, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	s := New()
	for name, elements := range map[string][]int64{
		"an unknown algorithm":       {0, 57, 10, 1000, 0, 1},
		"a request that is cut off":  {0, 0},
		"an unknown plain algorithm": {33, 57, 10, 1000, 0, 1},
		"a likeness of nothing":      {-4000},
	} {
		blob := []byte{0xdd, 0, 0, 0, 0, 0, 0}
		for i, n := range elements {
			blob = appendInt(blob, n)
			if i == 0 && n == 0 {
				blob = append(appendString(blob, ""), 0, 1) // no id, no record, one ask
			}
		}
		elems := 2 + len(elements)
		if elements[0] == 0 {
			elems += 3
		}
		blob[4] = byte(elems)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		reply, err := c.Eval(ctx, s.Source, []string{"sl:{stuck}:1"}, blob).Text()
		cancel()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("%s: the script goes on and on", name)
		}
		if err == nil {
			o := &Request{most: []most{{limit: 10}}}
			Decode(reply, []*Request{o})
			err = o.Err
		}
		if err == nil || CauseOf(err.Error()) != limiter.CauseInternal {
			t.Errorf("%s: got %v, want an internal error", name, err)
		}
	}
}
