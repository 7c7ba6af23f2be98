package api

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/limiter"
	"sluice/rules"
)

var errNoTurn = &limiter.StoreError{Cause: limiter.CauseOverload, Err: errors.New("no turn")}

func TestOverload_IsAnswered(t *testing.T) {
	for _, mode := range []string{"open", "closed", "local"} {
		shadow := failing("shadow", mode, 5)
		shadow.Mode = rules.ModeShadow
		f := newFixture(t, []rules.Rule{failing("a", mode, 5), shadow})
		f.store.fail(errNoTurn)
		answer := f.do("POST", checkPath, `{"user":"42"}`)
		const want = `{"allowed":false,"status":503,"retry_after_ms":1000,"retry_after_s":1,"degraded":null,"rule":null,` +
			`"overloaded":true,"limits":[{"rule":"a","key":"user:42","allowed":false,"limit":5,"mode":"enforce",` +
			`"overloaded":true},{"rule":"shadow","key":"user:42","allowed":true,"limit":5,"mode":"shadow","overloaded":true}],` +
			`"headers":{"Retry-After":"1","RateLimit-Policy":"\"a\";q=5;w=1"},"body":{"type":` +
			`"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","title":` +
			`"Request cannot be satisfied due to temporary server capacity constraints","status":503,"detail":` +
			`"More requests arrive than can be decided right now, so this one is denied.","violated-policies":[],"error":` +
			`"rate_limit_unavailable","message":"The service is busy. Please try again in a moment."}}` + "\n"
		if answer.status != http.StatusOK || answer.body != want {
			t.Errorf("%s: got %d %s\nwant %s", mode, answer.status, answer.body, want)
		}
		f.store.fail(nil)
		if got := f.check(`{"user":"42"}`); *got.Remaining != 4 {
			t.Errorf("%s: what was denied was charged: %+v", mode, got)
		}
	}
}

func TestOverload_ABlockingOverrideDenies(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("a", 5), perUser("b", 5)})
	f.do("POST", "/ratelimit/rules/1/overrides", `{"key":"user:42","blocked":true}`).want(http.StatusCreated)
	f.store.fail(errNoTurn)
	if got := f.check(`{"user":"42"}`); got.Allowed || got.Status != http.StatusTooManyRequests || got.Overloaded ||
		got.Degraded != nil || *got.RetryAfterMS != -1 {
		t.Errorf("blocked: %+v", got)
	}
	if got := f.check(`{"user":"43"}`); !got.Overloaded {
		t.Errorf("another user: %+v", got)
	}
}

func TestOverload_OtherOperationsAreRefused(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("a", 5)}, sealing)
	reserved := f.do("POST", "/ratelimit/reserve", `{"user":"42"}`)
	token := reserved.body[strings.Index(reserved.body, `"reservation":"`)+len(`"reservation":"`):]
	token = token[:strings.IndexByte(token, '"')]
	f.store.fail(errNoTurn)
	for path, body := range map[string]string{
		"charge": `{"user":"42"}`, "refund": `{"user":"42","request_id":"r"}`, "reset": `{"user":"42"}`,
		"settle": fmt.Sprintf(`{"reservation":%q,"weight":2}`, token),
	} {
		answer := f.do("POST", "/ratelimit/"+path, body)
		if answer.status != http.StatusServiceUnavailable || answer.header.Get("Retry-After") != "1" ||
			!strings.Contains(answer.body, `"type":"/problems/overloaded"`) {
			t.Errorf("%s: got %d %v %s", path, answer.status, answer.header, answer.body)
		}
	}
}

// TestTimeout_IsReadFromTheHeader: on every route that decides, by net/http and without it.
func TestTimeout_IsReadFromTheHeader(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("a", 500)})
	for value, good := range map[string]bool{
		"1": true, "100": true, "1000": true, " 7 ": true, "0": false, "1001": false, "010": false, "-1": false, "1.5": false,
		"1e2": false, "9999999999": false, "12ms": false,
	} {
		for path, body := range map[string]string{
			checkPath: `{"user":"42"}`, checkPath + "/batch": `{"checks":[{"user":"42"}]}`,
			"/ratelimit/reserve": `{"user":"42"}`, "/ratelimit/charge": `{"user":"42"}`, "/ratelimit/reset": `{"user":"42"}`,
		} {
			f.store.bound = limiter.Bound{}
			answer := f.do("POST", path, body, "Sluice-Timeout-Ms", strings.TrimSpace(value))
			switch {
			case good && (answer.status != http.StatusOK || f.store.bound.Hard.IsZero()):
				t.Errorf("%q: %s got %d %s, and the store %+v", value, path, answer.status, answer.body, f.store.bound)
			case !good && (answer.status != http.StatusBadRequest || !strings.Contains(answer.body, "Sluice-Timeout-Ms")):
				t.Errorf("%q: %s got %d %s", value, path, answer.status, answer.body)
			}
		}
	}
	f.store.bound = limiter.Bound{}
	if f.check(`{"user":"42"}`); !f.store.bound.Hard.IsZero() {
		t.Errorf("without the header the store has %+v", f.store.bound)
	}
	if got := f.do("GET", "/ratelimit/rules", "", "Sluice-Timeout-Ms", "x"); got.status != http.StatusOK {
		t.Errorf("a route that decides nothing: %d", got.status)
	}
}
