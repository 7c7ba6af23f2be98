package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

// checkSeeds are bodies near every branch of the decoder.
var checkSeeds = []string{
	`{"key":"user:42","limit":100,"window_ms":60000}`,
	`{"key":"k","limit":10,"window_ms":1000,"algorithm":"token_bucket","burst":20,"weight":0,"request_id":"a","fail_mode":"closed"}`,
	`{"key":"k","limit":10,"window_ms":1000,"algorithm":"fixed_window","align":"calendar","anchor_ms":-5}`,
	`{"key":"k","limit":10,"window_ms":1000,"algorithm":"sliding_window_buckets","buckets":10}`,
	`{"limits":[{"name":"a","key":"k","limit":1,"window_ms":9},{"key":"k2","limit":1,"window_ms":9,"burst":2}],"weight":2}`,
	`{"host":"a.example"}`, `{"limits":[]}`, `{"limits":[1]}`, `{"limits":[{"limits":[]}]}`, `{"limits":[{"user":"42"}]}`, `{"name":"a"}`,
	`{"method":"POST","route":"/v1/charges","ip":"203.0.113.7","user":"42","api_key":"sk_live_x","tier":"free","attributes":{"tenant":"acme"},"fields":{"bytes":1234},"weight":1}`,
	`{"user":"\u0041\ud83d\ude00\n\"\\\/"}`, `{"user":"\ud800"}`, `{"user":"\udc00\ud800"}`, `{"user":"\ud800\u0041"}`,
	"{\"user\":\"\xff\"}", "{\"user\":\"\x01\"}",
	`{"user":"a","user":"b"}`, `{"user":"a","us\u0065r":"b"}`, `{"User":"a"}`, `{"user":null}`, `{"user":1}`,
	`{"user":["a"]}`,
	`{"weight":1.0}`, `{"weight":1e3}`, `{"weight":-1}`, `{"weight":"1"}`, `{"weight":true}`,
	`{"weight":9007199254740991}`, `{"weight":9007199254740992}`,
	`{"weight":99999999999999999999999999}`, `{"weight":-0}`, `{"weight":01}`, `{"weight":1.}`, `{"weight":.5}`,
	`{"weight":+1}`, `{"weight":1e}`,
	`{"attributes":{"a":"1","a":"2"}}`, `{"attributes":{"":"1"}}`, `{"attributes":{"a":1}}`, `{"fields":{"a":"1"}}`,
	`{"fields":{"a":-1}}`, `{"attributes":[]}`,
	`{"unknown":1}`, `{}`, `[]`, `null`, `""`, `7`, ``, ` `, `{`, `{"user"}`, `{"user":}`, `{"user":"a",}`,
	`{"user":"a"}}`, `{"user":"a"} x`, "\ufeff{}",
	`{"user":{"a":[{"b":[[[[]]]]}]}}`, `{"user":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}`,
	`{"key":"k","user":"42"}`, `{"limit":5}`, `{"ip":"nonsense"}`, `{"ip":"fe80::1%eth0"}`, `{"ip":"::ffff:1.2.3.4"}`,
}

// FuzzCheckDecode holds the fast decoder to a slow one on encoding/json: they
// refuse the same bodies for the same fields and read the same values.
func FuzzCheckDecode(f *testing.F) {
	for _, s := range checkSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		values, wrong, slowErr := slowCheck(data)
		var s scanner
		var in checkInput
		err := s.start(data)
		if err == nil {
			err = in.read(&s, 0)
		}
		if err == nil {
			err = s.end()
		}
		if (err == nil) != (slowErr == nil) {
			t.Fatalf("%q: fast says %v, slow says %v", data, err, slowErr)
		}
		if err != nil {
			var m *malformedError
			if !errors.As(err, &m) {
				t.Fatalf("%q: %v is not malformed", data, err)
			}
			return
		}
		if len(in.errs) == maxFieldErrors {
			return // some are not named
		}
		bad := map[string]bool{}
		for _, e := range in.errs {
			bad[field.TopField(e.Field)] = true
		}
		for i := range in.limits {
			if len(in.limits[i].errs) > 0 {
				bad["limits"] = true
			}
		}
		if !reflect.DeepEqual(bad, wrong) {
			t.Fatalf("%q: fast complains about %v, slow about %v", data, bad, wrong)
		}
		for i, name := range checkMembers {
			want, given := values[name]
			if given != in.given(i) {
				t.Fatalf("%q: %s given %v, want %v", data, name, in.given(i), given)
			}
			if !given || bad[name] {
				continue
			}
			var got any = in.text[i]
			switch i {
			case inLimits:
				continue
			case inAttributes:
				got = in.attributes
			case inFields:
				got = in.fields
			case inLimit, inWindow, inBurst, inAnchor, inBuckets, inWeight:
				got = in.number[i]
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%q: %s is %#v, want %#v", data, name, got, want)
			}
		}
	})
}

// fuzzPost sends a body to a path of a fresh-enough server and fails on any 5xx
// or an answer that openapi.yaml does not foresee.
func fuzzPost(t *testing.T, f *fixture, method, path, body string) *answered {
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = f.host
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+f.token)
	w := httptest.NewRecorder()
	f.echo.ServeHTTP(w, r)
	a := &answered{t: t, status: w.Code, header: w.Header(), body: w.Body.String()}
	if a.status >= 500 {
		t.Fatalf("%s %s %q: status %d: %s", method, path, body, a.status, a.body)
	}
	holdToDocument(t, method, path, a)
	return a
}

// FuzzCheckHTTP: whatever the body, every decision path answers below 500 and
// as documented, and what openapi.yaml refuses is never decided.
func FuzzCheckHTTP(f *testing.F) {
	for _, s := range checkSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		fx := newFixture(t, []rules.Rule{perUser("r", 5), slots("slots", 2)})
		doc := loadDocument(t)
		for _, path := range []string{"check", "charge", "refund", "reset", "release", "renew", "explain"} {
			a := fuzzPost(t, fx, http.MethodPost, "/ratelimit/"+path, body)
			if a.status == http.StatusOK && path != "release" && path != "renew" {
				if err := visit(doc.Components.Schemas["Check"].Value, body); err != nil {
					t.Fatalf("%s decided %q, which openapi.yaml refuses: %v", path, body, err)
				}
			}
		}
		fuzzPost(t, fx, http.MethodPost, "/ratelimit/check/batch", `{"checks":[`+body+`]}`)
	})
}

// FuzzRuleHTTP: whatever the body, writing a rule answers below 500, stores
// nothing unless it succeeds, and what is stored compiles.
func FuzzRuleHTTP(f *testing.F) {
	good := `{"name":"charges-per-user","scope":"user","route":"/v1/charges","method":"POST","limit":5,"window_ms":1000}`
	for _, s := range []string{
		good, `{"name":"a","scope":"user+ip+attr:tenant","limit":0,"window_ms":1,"algorithm":"gcra","burst":7}`,
		strings.Replace(good, `"limit":5`, `"limit":5.0`, 1), strings.Replace(good, `"POST"`, `null`, 1), `{"limit":null}`,
		`{"burst":null,"limit":7}`,
		`{"name":"A"}`, `{"id":1,"version":3}`, `{"mode":"shadow"}`, `{"is_active":false}`, `{"route":"/{a}/*"}`,
		`{"anchor_ms":-1,"algorithm":"fixed_window"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		fx := newFixture(t, []rules.Rule{perUser("r", 5)})
		for _, w := range [][2]string{
			{http.MethodPost, "/ratelimit/rules"}, {http.MethodPut, "/ratelimit/rules/1"},
			{http.MethodPatch, "/ratelimit/rules/1"},
			{http.MethodPost, "/ratelimit/rules/1/rollback"}, {http.MethodPost, "/ratelimit/rules/import"},
		} {
			before := len(fx.book.revisions)
			a := fuzzPost(t, fx, w[0], w[1], body)
			if a.status >= 400 && len(fx.book.revisions) != before {
				t.Fatalf("%s %s %q: refused with %d but written", w[0], w[1], body, a.status)
			}
		}
		if _, err := match.Compile(fx.book.all(), 1, match.Options{}); err != nil {
			t.Fatalf("%q: what was stored does not compile: %v", body, err)
		}
	})
}

// FuzzAnswerEncode: an answer is the same document to encoding/json.
func FuzzAnswerEncode(f *testing.F) {
	f.Add("user:42", int64(5), true)
	f.Add("{key:\x00\"\\é\xff}|w1000|fw", int64(-1), false)
	f.Fuzz(func(t *testing.T, key string, n int64, allowed bool) {
		a := decide.Answer{Verdict: decide.Allowed, Limits: []decide.LimitAnswer{{
			Rule: "r", Key: limiter.Key(key), Known: true, Limit: limiter.Limit{Count: 1, Window: 1},
			Decision: limiter.Decision{Allowed: allowed, Limit: n, Remaining: n, Reset: n, RetryAfter: n},
		}}}
		if !allowed {
			a.Verdict = decide.Denied
		}
		out := new(encoder).append(nil, &a)
		var got struct {
			Remaining int64
			Limits    []struct{ Key string }
		}
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		if want := strings.ToValidUTF8(match.DisplayKey(limiter.Key(key)),
			"\ufffd"); len(strings.ReplaceAll(got.Limits[0].Key, "\ufffd", "")) != len(
			strings.ReplaceAll(want, "\ufffd", "")) || got.Remaining != n {
			t.Fatalf("read back %q and %d", got.Limits[0].Key, got.Remaining)
		}
	})
}
