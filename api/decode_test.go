package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// with puts a member into a JSON object, replacing one of that name if the
// object ends with it.
func with(object, member string) string {
	return strings.TrimSuffix(object, "}") + "," + member + "}"
}

// badIntegers are refused for any member that is a count.
var badIntegers = []string{`1.0`, `1e3`, `-1`, `"1"`, `true`, `null`, `[]`, `{}`, `9007199254740992`, `1e400`,
	`-9223372036854775809`, `18446744073709551616`}

// badStrings are refused for any member that is text.
var badStrings = []string{`1`, `1.5`, `true`, `null`, `[]`, `["a"]`, `{}`, `"` + strings.Repeat("x", 1025) + `"`}

func TestCheck_EveryMemberRefusesBadValues(t *testing.T) {
	const direct, described = `{"limit":5,"window_ms":1000,"key":"k"}`, `{"tier":"free"}`
	tests := []struct {
		member string
		base   string
		bad    []string
	}{
		{"key", `{"limit":5,"window_ms":1000}`, append([]string{`""`}, badStrings...)},
		{"limit", `{"key":"k","window_ms":1000}`, badIntegers},
		{"window_ms", `{"key":"k","limit":5}`, append([]string{`0`, `315576000001`}, badIntegers...)},
		{"algorithm", direct, append([]string{`""`, `"leaky"`, `"GCRA"`}, badStrings...)},
		{"burst", with(direct, `"algorithm":"gcra"`), badIntegers},
		{"burst", direct, []string{`5`, `0`}},
		{"align", with(direct, `"algorithm":"fixed_window"`), append([]string{`""`, `"start"`}, badStrings...)},
		{"align", direct, []string{`"calendar"`}},
		{"anchor_ms", with(direct, `"algorithm":"fixed_window"`),
			[]string{`1.0`, `"1"`, `null`, `-315576000001`, `6311520000001`}},
		{"anchor_ms", direct, []string{`5`}},
		{"buckets", with(direct, `"algorithm":"sliding_window_buckets"`), append([]string{`0`, `1441`}, badIntegers...)},
		{"fail_mode", direct, append([]string{`""`, `"half"`}, badStrings...)},
		{"weight", direct, badIntegers},
		{"request_id", direct, append([]string{`"` + strings.Repeat("x", 65) + `"`}, badStrings...)},
		{"method", described, badStrings},
		{"route", described, badStrings},
		{"user", described, badStrings},
		{"api_key", described, badStrings},
		{"tier", `{"user":"42"}`, badStrings},
		{"ip", described, append([]string{`""`, `"1.2.3"`, `"1.2.3.4:80"`, `"1.2.3.0/24"`, `"localhost"`, `"::g"`,
			`" 1.2.3.4"`, `"01.2.3.4"`}, badStrings...)},
		{"attributes", described, []string{`1`, `"a"`, `[]`, `null`, `true`, manyMembers(65, `"v"`)}},
		{"attributes.a", described, badStrings},
		{"fields", described, []string{`1`, `"a"`, `[]`, `null`, `true`, manyMembers(65, `1`)}},
		{"fields.a", described, badIntegers},
		{"host", described, append([]string{`"a b"`, `"https://a.com"`, `"a.com/b"`, `"a..b"`, `"a.com:x"`, `"*.a.com"`,
			`"-a.com"`, `"[::1"`, `"."`, `"` + strings.Repeat("a", 64) + `.com"`}, badStrings...)},
		{"host", direct, []string{`"a.com"`}},
		{"user", direct, []string{`"42"`}},
		{"fields", direct, []string{`{}`}},
		{"limit", described, []string{`5`}},
		{"fail_mode", described, []string{`"open"`}},
	}
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	for _, tt := range tests {
		for _, v := range tt.bad {
			member := fmt.Sprintf("%q:%s", tt.member, v)
			if outer, inner, ok := strings.Cut(tt.member, "."); ok {
				member = fmt.Sprintf("%q:{%q:%s}", outer, inner, v)
			}
			body := with(tt.base, member)
			a := f.do(http.MethodPost, "/ratelimit/check", body)
			if a.status != 422 {
				t.Errorf("%.80s: status %d: %s", body, a.status, a.body)
				continue
			}
			if diff := cmp.Diff([]string{tt.member}, a.fields()); diff != "" {
				t.Errorf("%.80s: fields (-want +got):\n%s", body, diff)
			}
		}
	}
	if len(f.store.asks) != 0 {
		t.Errorf("%d refused checks reached the store", len(f.store.asks))
	}
}

func manyMembers(n int, value string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(`"m%d":%s`, i, value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestCheck_BoundsThemselvesAreAccepted(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	for _, body := range []string{
		`{"key":"` + strings.Repeat("k", 1024) +
			`","limit":9007199254740991,"window_ms":315576000000,"algorithm":"fixed_window","weight":9007199254740991}`,
		`{"key":"k","limit":0,"window_ms":1}`, `{"key":"\u0000{}|","limit":1,"window_ms":1,"weight":-0}`,
		`{"user":"` + strings.Repeat("u", 1024) + `","request_id":"` + strings.Repeat("r", 64) + `"}`,
		`{"attributes":` + manyMembers(64, `"v"`) + `,"fields":` + manyMembers(64, `9007199254740991`) + `}`,
		`{"ip":"2001:db8::1"}`, `{"ip":"::ffff:203.0.113.7"}`, `{"ip":"fe80::1%eth0"}`, `{"user":""}`,
		`{"host":"API.Example.com:8080"}`, `{"host":"b\u00fccher.example."}`, `{"host":"[::1]:80"}`, `{"host":""}`,
		" \t\r\n{ \"user\" : \"42\" } \n",
	} {
		f.post("/ratelimit/check", body)
	}
}

func TestCheck_NamesEveryBadFieldAtOnce(t *testing.T) {
	f := newFixture(t, nil)
	a := f.do(http.MethodPost, "/ratelimit/check",
		`{"key":"","limit":-1,"window_ms":0,"weight":1.5,"fail_mode":"x","user":"42"}`).want(422)
	if diff := cmp.Diff([]string{"fail_mode", "key", "limit", "user", "weight", "window_ms"}, a.fields()); diff != "" {
		t.Error(diff)
	}
	a = f.do(http.MethodPost, "/ratelimit/check", `{"key":"k"}`).want(422)
	if diff := cmp.Diff([]string{"limit", "window_ms"}, a.fields()); diff != "" {
		t.Error(diff)
	}
}

func TestCheck_ErrorsAreBounded(t *testing.T) {
	a := newFixture(t, nil).do(http.MethodPost, "/ratelimit/check", `{"fields":`+manyMembers(3000, `"x"`)+`}`).want(422)
	if n := len(a.fields()); n != maxFieldErrors {
		t.Errorf("%d errors named, want %d", n, maxFieldErrors)
	}
}

func TestErrors_ShowNamesOfMembersEscaped(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	const name, shown = "a\u202e\x1bb", "a%E2%80%AE%1Bb"
	quoted := `{"a\u202e\u001bb":null}`
	for _, tt := range []struct{ method, path, body, want string }{
		{http.MethodPost, "/ratelimit/check", `{"user":"42","fields":` + quoted + `}`, "fields." + shown},
		{http.MethodPost, "/ratelimit/check", `{"user":"42","attributes":` + quoted + `}`, "attributes." + shown},
		{http.MethodGet, "/ratelimit/stats?" + url.QueryEscape(name) + "=1", "", shown},
	} {
		a := f.do(tt.method, tt.path, tt.body).want(http.StatusUnprocessableEntity)
		if diff := cmp.Diff([]string{tt.want}, a.fields()); diff != "" {
			t.Errorf("%s: fields (-want +got):\n%s", tt.path, diff)
		}
	}
}

func TestDecode_MalformedBodiesAre400Everywhere(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	bodies := []string{
		"", " ", "{", "}", "nul", "null", "7", `"x"`, "[]", "[{}]", `{"user":"a"} {}`, `{"user":"a"},`, `{"user":"a",}`,
		`{user:"a"}`, `{'user':'a'}`,
		`{"user":"a","user":"a"}`, `{"nobody":1}`, `{"USER":"a"}`, "{\"user\":\"\xff\"}", `{"user":"\ud800"}`,
		"{\"user\":\"a\nb\"}", `{"user":"a" "b":1}`,
		"\ufeff{}", `{"user":` + deep + `}`, `{"name":` + deep + `}`, `{"user":NaN}`, `{"name":01}`, `{"": 1}`, `/* x */{}`,
		"{\x00}",
		"{\"user\":\"a\\n\x01\"}", `{"user":[{"a":1,"a":2}]}`, `{"name":{"a":1,"a":2}}`,
	}
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	paths := [][2]string{
		{http.MethodPost, "/ratelimit/check"}, {http.MethodPost, "/ratelimit/charge"}, {http.MethodPost, "/ratelimit/refund"},
		{http.MethodPost, "/ratelimit/reset"},
		{http.MethodPost, "/ratelimit/release"}, {http.MethodPost, "/ratelimit/explain"},
		{http.MethodPost, "/ratelimit/check/batch"},
		{http.MethodPost, "/ratelimit/rules"}, {http.MethodPut, "/ratelimit/rules/1"},
		{http.MethodPatch, "/ratelimit/rules/1"},
		{http.MethodPost, "/ratelimit/rules/1/rollback"},
	}
	for _, p := range paths {
		for _, body := range bodies {
			if a := f.do(p[0], p[1], body, "Content-Type", "application/json"); a.status != 400 {
				t.Errorf("%s %s %.40q: status %d: %s", p[0], p[1], body, a.status, a.body)
			}
		}
	}
	if len(f.store.asks) != 0 || len(f.book.revisions) != 1 {
		t.Error("a malformed body had an effect")
	}
}

func TestRules_EveryMemberRefusesBadValues(t *testing.T) {
	const base = `{"name":"n","scope":"user","limit":5,"window_ms":1000}`
	optionalText := []string{`1`, `true`, `[]`, `{}`, `""`, `" "`}
	integers := []string{`1.0`, `1e3`, `"1"`, `true`, `[]`, `{}`, `9007199254740992`, `-9007199254740992`}
	tests := []struct {
		member string
		base   string
		bad    []string
	}{
		{"name", `{"scope":"user","limit":5,"window_ms":1000}`,
			[]string{`1`, `null`, `""`, `"A"`, `"-a"`, `"a b"`, `" a"`, `"` + strings.Repeat("a", 64) + `"`, `"é"`}},
		{"description", base, []string{`1`, `"` + strings.Repeat("a", 1025) + `"`, `"a\u0000b"`}},
		{"scope", `{"name":"n","limit":5,"window_ms":1000}`,
			[]string{`1`, `null`, `""`, `"nobody"`, `"user+user"`, `"user+"`, `"global+ip"`, `"attr:"`}},
		{"route", base, append([]string{`"x"`, `"/a?b"`, `"/a//b"`, `"/{"`}, optionalText...)},
		{"method", base, append([]string{`"A B"`}, optionalText...)},
		{"host", base, append([]string{`"a b"`, `"a.com:80"`, `"https://a.com"`, `"a.*"`, `"*a.com"`, `"*.*.com"`, `"*."`,
			`"*.10.0.0.1"`, `"a.com/"`}, optionalText...)},
		{"algorithm", base, append([]string{`"x"`, `""`}, optionalText...)},
		{"limit", `{"name":"n","scope":"user","window_ms":1000}`, append([]string{`-1`, `null`}, integers...)},
		{"window_ms", `{"name":"n","scope":"user","limit":5}`,
			append([]string{`0`, `-1`, `null`, `315576000001`}, integers...)},
		{"burst", with(base, `"algorithm":"gcra"`), append([]string{`-1`}, integers...)},
		{"burst", base, []string{`5`}},
		{"align", with(base, `"algorithm":"fixed_window"`), append([]string{`"x"`}, optionalText...)},
		{"anchor_ms", with(base, `"algorithm":"fixed_window"`), append([]string{`-315576000001`}, integers...)},
		{"buckets", with(base, `"algorithm":"sliding_window_buckets"`), append([]string{`0`, `1441`}, integers...)},
		{"weight_field", base, append([]string{`"a b"`}, optionalText...)},
		{"when", base, []string{`"cidr(ip)"`, `"cidr(ip, \"10.0.0.1/8\")"`, `"cidr(ip, \"ten\")"`, `"cidr(ip, user)"`,
			`"cidr(user, \"10.0.0.0/8\")"`, `"host == 1"`}},
		{"throttle", base, append([]string{`"x"`, `""`}, optionalText...)},
		{"soft_percent", with(base, `"throttle":"soft"`), append([]string{`0`, `1001`}, integers...)},
		{"soft_percent", base, append([]string{`10`}, integers...)},
		{"mode", base, append([]string{`"x"`, `""`}, optionalText...)},
		{"fail_mode", base, append([]string{`"x"`, `""`}, optionalText...)},
		{"is_active", base, []string{`1`, `"true"`, `[]`}},
	}
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	doc := loadDocument(t).Components.Schemas["RuleInput"].Value
	for _, tt := range tests {
		for _, v := range tt.bad {
			body := with(tt.base, fmt.Sprintf("%q:%s", tt.member, v))
			for _, w := range [][2]string{{http.MethodPost, "/ratelimit/rules"}, {http.MethodPut, "/ratelimit/rules/1"}} {
				a := f.do(w[0], w[1], body)
				if a.status != 422 {
					t.Errorf("%s %.90s: status %d: %s", w[0], body, a.status, a.body)
					continue
				}
				if diff := cmp.Diff([]string{tt.member}, a.fields()); diff != "" {
					t.Errorf("%s %.90s: fields (-want +got):\n%s", w[0], body, diff)
				}
			}
		}
	}
	if len(f.book.revisions) != 1 {
		t.Error("a refused rule was written")
	}
	if err := visit(doc, base); err != nil {
		t.Errorf("openapi.yaml refuses a good rule: %v", err)
	}
}

// TestOpenAPI_BoundsAreThoseOfTheValidator tries the values at and just beyond
// each bound of the document.
func TestOpenAPI_BoundsAreThoseOfTheValidator(t *testing.T) {
	f := newFixture(t, nil)
	doc := loadDocument(t)
	try := func(schema, path, body string, isGood bool) {
		t.Helper()
		good := visit(doc.Components.Schemas[schema].Value, body) == nil
		status := f.do(http.MethodPost, path, body).status
		if good != isGood || (status < 300) != isGood {
			t.Errorf("%.100s: good by openapi.yaml %v, status %d, want good %v", body, good, status, isGood)
		}
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for body, isGood := range map[string]bool{
		`{"key":"` + long(1024) + `","limit":1,"window_ms":1}`:                                        true,
		`{"key":"` + long(1025) + `","limit":1,"window_ms":1}`:                                        false,
		`{"key":"","limit":1,"window_ms":1}`:                                                          false,
		`{"key":"k","limit":9007199254740991,"window_ms":1}`:                                          true,
		`{"key":"k","limit":9007199254740992,"window_ms":1}`:                                          false,
		`{"key":"k","limit":1,"window_ms":315576000000}`:                                              true,
		`{"key":"k","limit":1,"window_ms":315576000001}`:                                              false,
		`{"key":"k","limit":1,"window_ms":0}`:                                                         false,
		`{"key":"k","limit":1,"window_ms":10000,"algorithm":"sliding_window_buckets","buckets":1440}`: true,
		`{"key":"k","limit":1,"window_ms":10000,"algorithm":"sliding_window_buckets","buckets":1441}`: false,
		`{"key":"k","limit":1,"window_ms":1,"algorithm":"fixed_window","anchor_ms":6311520000000}`:    true,
		`{"key":"k","limit":1,"window_ms":1,"algorithm":"fixed_window","anchor_ms":6311520000001}`:    false,
		`{"key":"k","limit":1,"window_ms":1,"algorithm":"fixed_window","anchor_ms":-315576000000}`:    true,
		`{"key":"k","limit":1,"window_ms":1,"algorithm":"fixed_window","anchor_ms":-315576000001}`:    false,
		`{"user":"42","request_id":"` + long(64) + `"}`:                                               true,
		`{"user":"42","request_id":"` + long(65) + `"}`:                                               false,
		`{"user":"` + long(1024) + `"}`:                                                               true,
		`{"user":"` + long(1025) + `"}`:                                                               false,
		`{"attributes":` + manyMembers(64, `"v"`) + `}`:                                               true,
		`{"attributes":` + manyMembers(65, `"v"`) + `}`:                                               false,
		`{"fields":` + manyMembers(65, `1`) + `}`:                                                     false,
		`{"key":"k","limit":1,"window_ms":1,"user":"42"}`:                                             false,
		`{"key":"k","limit":1,"window_ms":1,"extra":1}`:                                               false,
		`{}`: false,
	} {
		try("Check", "/ratelimit/check", body, isGood)
	}
	rule := func(name, more string) string {
		return `{"name":"` + name + `","scope":"user","limit":1,"window_ms":100000` + more + `}`
	}
	for body, isGood := range map[string]bool{
		rule(strings.Repeat("a", 63), ""):                                         true,
		rule(strings.Repeat("a", 64), ""):                                         false,
		rule("d1", `,"description":"`+long(1024)+`"`):                             true,
		rule("d2", `,"description":"`+long(1025)+`"`):                             false,
		rule("w1", `,"weight_field":"`+long(64)+`"`):                              true,
		rule("w2", `,"weight_field":"`+long(65)+`"`):                              false,
		rule("r1", `,"route":"/`+long(1023)+`"`):                                  true,
		rule("r2", `,"route":"/`+long(1024)+`"`):                                  false,
		rule("m1", `,"method":"`+strings.ToUpper(long(32))+`"`):                   true,
		rule("m2", `,"method":"`+strings.ToUpper(long(33))+`"`):                   false,
		rule("b1", `,"algorithm":"sliding_window_buckets","buckets":1440`):        true,
		rule("b2", `,"algorithm":"sliding_window_buckets","buckets":1441`):        false,
		rule("n1", `,"algorithm":null,"mode":null,"fail_mode":null,"burst":null`): true,
	} {
		try("RuleInput", "/ratelimit/rules", body, isGood)
	}
}

// What one check of a batch says must not show in the next, which may share its
// texts.
func TestDecodeBatch_EachCheckIsReadAsIfAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SampledFrom([]string{"", "GET", "POST", "a", "aa", "b\\u0062", "é"})
		checks := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			var members []string
			for _, name := range []string{"method", "route", "host", "ip", "user", "api_key", "tier", "request_id"} {
				if rapid.Bool().Draw(t, name) {
					members = append(members, `"`+name+`":"`+texts.Draw(t, name+" text")+`"`)
				}
			}
			return "{" + strings.Join(members, ",") + "}"
		}), 1, 6).Draw(t, "checks")
		got, gotErr := decodeBatch([]byte(`{"checks":[`+strings.Join(checks, ",")+`]}`), nil)
		var want []decide.Question
		var wantErr error
		for _, text := range checks {
			var q decide.Question
			wantErr = errors.Join(wantErr, decodeCheck([]byte(text), limiter.OpTake, &q))
			want = append(want, q)
		}
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("the batch: %v, one by one: %v", gotErr, wantErr)
		}
		if gotErr == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}
