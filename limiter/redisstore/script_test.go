package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// A script that never ends is a Redis that is lost to everyone.
func TestScript_ACallThatIsNoneOfOursEnds(t *testing.T) {
	c, err := NewClient(testenv.Redis(t).URL(), ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	s := newScript()
	for name, elements := range map[string][]int64{
		"an unknown algorithm":       {0, 99, 10, 1000, 0, 1},
		"a request that is cut off":  {0, 0},
		"an unknown plain algorithm": {33, 99, 10, 1000, 0, 1},
		"a likeness of nothing":      {-4000},
	} {
		blob := appendHeader(nil, nil)
		for i, n := range elements {
			blob = appendInt(blob, n)
			if i == 0 && n == 0 {
				blob = append(appendString(blob, ""), 0, 1) // no id, no record, one ask
			}
		}
		elems := headElems + len(elements)
		if elements[0] == 0 {
			elems += 3
		}
		setLength(blob, elems)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		reply, err := s.run(ctx, c, []string{"sl:{stuck}:1"}, blob)
		cancel()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || err != nil && strings.Contains(err.Error(), "timeout") {
			t.Fatalf("%s: the script goes on and on", name)
		}
		if err == nil {
			o := &op{most: []most{{limit: 10}}}
			unpack(reply, []*op{o})
			err = o.err
		}
		if limiter.CauseOf(Classify(err)) != limiter.CauseInternal {
			t.Errorf("%s: got %v, want an internal error", name, err)
		}
	}
}
