package client

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Every decision says how long its caller waits: the client's timeout, or what is left of it.
func TestTimeout_IsSaidToTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for timeout, want := range map[time.Duration]string{0: strconv.FormatInt(defaultTimeout.Milliseconds(), 10),
			40 * time.Millisecond: "40", 3 * time.Second: "1000", time.Microsecond: "1"} {
			c, f := newFake(t, Options{Timeout: timeout})
			ctx := t.Context()
			_, _ = c.Check(ctx, Check{User: "42"})
			_, _ = c.Batch(ctx, []Check{{User: "42"}, {User: "43"}})
			_, _ = c.Reserve(ctx, Check{User: "42"}, 0)
			f.mu.Lock()
			for _, call := range f.calls {
				if got := call.header.Get("Sluice-Timeout-Ms"); got != want {
					t.Errorf("timeout %s: %s says %q, want %q", timeout, call.path, got, want)
				}
			}
			if len(f.calls) == 0 {
				t.Errorf("timeout %s: no call", timeout)
			}
			f.mu.Unlock()
			c.Close()
		}
	})
}

func TestAnswer_SaysThatTheServiceWasOverloaded(t *testing.T) {
	const text = `{"allowed":false,"status":503,"retry_after_ms":1000,"retry_after_s":1,"degraded":null,"rule":null,` +
		`"overloaded":true,"limits":[{"rule":"a","key":"user:42","allowed":false,"limit":5,"mode":"enforce",` +
		`"overloaded":true}],"headers":{"Retry-After":"1"},"body":{}}`
	var a Answer
	if !a.scan([]byte(text)) || !a.Overloaded || a.Allowed || a.Degraded != "" || !a.Limits[0].Overloaded {
		t.Errorf("got %+v", a)
	}
}
