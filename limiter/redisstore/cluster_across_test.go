package redisstore

import (
	"testing"

	"sluice/limiter"
)

func TestNameOf_LeavesOutBans(t *testing.T) {
	ban := func(key limiter.Key) limiter.Ask {
		return limiter.Ask{Key: limiter.BanKey(key), Limit: limiter.BanLimit(2, 1, 1, 1, 1)}
	}
	a, b := limiter.Ask{Key: "{a}|1|fw"}, limiter.Ask{Key: "{b}|2|fw"}
	name := func(asks ...limiter.Ask) string { return nameOf(&limiter.Request{Asks: asks}) }
	if want := name(a, b); name(a, ban(a.Key), b) != want || name(a, b, ban(b.Key)) != want || name(a) == want {
		t.Error("a ban is in the name, or a limit is not")
	}
}
