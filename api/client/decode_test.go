package client

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// answers are answers in the form of the service, and some that are not.
var answers = []string{
	`{"allowed":true,"status":200,"degraded":null,"rule":null,"limits":[],"headers":{}}` + "\n",
	`{"allowed":false,"status":429,"limit":5,"burst":7,"remaining":0,"reset_ms":1190,"retry_after_ms":-1,` +
		`"retry_after_s":-1,"delay_ms":0,"degraded":"local","rule":"a","soft":true,"elastic":true,"replayed":true,` +
		`"lease":"l","limits":[{"rule":"a","key":"user:4\"2","allowed":false,"limit":5,"remaining":0,"reset_ms":1190,` +
		`"retry_after_ms":190,"mode":"enforce","condition_failed":true},{"rule":null,"key":"k","allowed":true,"limit":3,"mode":"shadow",` +
		`"degraded":"open"}],"headers":{"Retry-After":"1","RateLimit":"\"a\";r=0;t=1"},"body":{"type":"x",` +
		`"violated-policies":["a","}{\\"],"n":1.5,"more":{"a":[{}]}}}`,
	`{"allowed":true,"status":200,"reservation":"r","expires_in_ms":5,"ticket":"t","not_deferred":"full","refunded":3,"reset":2}`,
	`{"allowed":true,"status":200,"rule":"\u00e9\n"}`,
	`{ "allowed": false, "status": 429 }`,
	`{"allowed":true,"status":200,"unknown":[1,2]}`,
	`{"allowed":true,"status":200,"limit":null}`,
	`{"allowed":null,"status":200}`, `{"allowed":"yes","status":200}`, `{"status":200}`, `{"allowed":true}`, `{}`,
	`{"allowed":true,"status":199}`, `{"allowed":true,"status":600}`, `{"allowed":true,"status":"200"}`,
	`{"allowed":true}{"allowed":false}`,
	`{"allowed":true,}`, `{"allowed":tru}`, `{"allowed"}`, `{`, ``, `null`, `[]`, `"`, `{"rule":"`, `{"rule":"\`,
	`{"limit":01}`, `{"limit":1.0}`, `{"limit":12345678901234567890}`, `{"body":{]}`, `{"body":"text"}`, `{"body":{"a":}}`,
	"{\"rule\":\"\xff\"}", "{\"rule\":\"a\tb\"}", `{"limits":[{}],"limits":[{},{}]}`, `{"headers":{"a":"b"},"headers":{"c":"d"}}`,
}

// checkDecode compares the scanner with encoding/json.
func checkDecode(t *testing.T, raw []byte) (scanned bool) {
	var got, want Answer
	scanned = got.scan(raw)
	err := json.Unmarshal(raw, &want)
	if !scanned {
		return false
	}
	if err != nil {
		t.Fatalf("%q is scanned, but not valid: %v", raw, err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%q (-encoding/json +scan):\n%s", raw, d)
	}
	return true
}

func TestDecode_IsEncodingJSONForEveryAnswer(t *testing.T) {
	for i, raw := range answers {
		if scanned := checkDecode(t, []byte(raw)); scanned != (i < 2) && i < 6 {
			t.Errorf("%s: scanned %v", raw, scanned)
		}
		var a, want Answer
		var members struct{ Allowed *bool }
		text := []byte(raw)
		readable := json.Unmarshal(text, &want) == nil && json.Unmarshal(text, &members) == nil && members.Allowed != nil &&
			want.Status >= 200 && want.Status <= 599
		if err := decode(text, &a); (err == nil) != readable || readable && !cmp.Equal(a, want) {
			t.Errorf("%q: %+v, %v; want %+v, readable %v", raw, a, err, want, readable)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, raw := range answers {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkDecode(t, raw) })
}

func TestSplitResults_FindsEveryElement(t *testing.T) {
	for _, raw := range []string{
		`{"results":[` + answers[1] + `,{"a":"]}"},{}]}` + "\n",
		`{ "results": [` + answers[1] + `, {"a":"]}"}, {}] }`,
	} {
		got, err := splitResults([]byte(raw))
		if err != nil || len(got) != 3 || string(got[0]) != answers[1] || string(got[1]) != `{"a":"]}"}` ||
			string(got[2]) != "{}" {
			t.Errorf("%s: %q, %v", raw, got, err)
		}
	}
	for _, raw := range []string{"", "{}{", `{"results":[{]}`, `{"results":{}}`, `{"results":[{}` + strings.Repeat("[", 9)} {
		if got, err := splitResults([]byte(raw)); err == nil {
			t.Errorf("%s: %q", raw, got)
		}
	}
}
