package records

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decodes compares a Decoder with encoding/json and reports whether the line is an event.
func decodes(t rapid.TB, d *Decoder, line []byte) bool {
	t.Helper()
	got, err := d.Decode(line)
	var want Event
	wantErr := json.Unmarshal(line, &want)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%q: error %v, want %v", line, err, wantErr)
	}
	if err != nil {
		return false
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Fatalf("%q (- json, + decoder):\n%s", line, diff)
	}
	return true
}

// What Append writes is decoded without encoding/json, into the same event.
func TestDecoder_ReadsWhatAppendWrites(t *testing.T) {
	var d Decoder
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ -!#-;=?-\[\]-~äß→]{0,70}`)
		number := rapid.Int64Range(-1, 1<<53)
		limit := rapid.Custom(func(t *rapid.T) Limit {
			return Limit{Key: text.Draw(t, "key"), Rule: text.Draw(t, "rule"), Mode: "enforce", Limit: number.Draw(t, "limit"),
				Used: number.Draw(t, "used"), Allowed: rapid.Bool().Draw(t, "allowed"), Weight: number.Draw(t, "weight"),
				RetryAfterMS: number.Draw(t, "retry"), Degraded: rapid.SampledFrom([]string{"", "local"}).Draw(t, "degraded"),
				Overloaded: rapid.Bool().Draw(t, "overloaded"), ConditionFailed: rapid.Bool().Draw(t, "failed")}
		})
		e := Event{Schema: Schema, TS: number.Draw(t, "ts"), Key: text.Draw(t, "key"), Weight: number.Draw(t, "weight"),
			Op: "check", Rate: rapid.SampledFrom([]float64{0, 0.25, 1, 12.5, 100}).Draw(t, "rate"),
			Drawn: rapid.Bool().Draw(t, "drawn"), UserAgent: text.Draw(t, "agent"),
			Omitted: rapid.SliceOfN(text, 0, 3).Draw(t, "omitted"), Limits: rapid.SliceOfN(limit, 0, 3).Draw(t, "limits")}
		e.Deferred = rapid.SampledFrom([]string{"", DeferredUnknown}).Draw(t, "deferred")
		e.Granted = rapid.Int64Range(0, 9).Draw(t, "granted")
		if rapid.Bool().Draw(t, "with decisions") {
			e.By, e.Decisions = "caller", &Decisions{number.Draw(t, "allowed"), number.Draw(t, "denied")}
		}
		if rapid.Bool().Draw(t, "with facts") {
			e.Facts = &Facts{Method: "GET", User: text.Draw(t, "user"),
				Attributes: rapid.MapOfN(text, text, 0, 3).Draw(t, "attributes"),
				Fields:     rapid.MapOfN(text, number, 0, 3).Draw(t, "fields")}
		}
		line := e.Append(nil)
		if d.b = line; !d.event(&Event{}) || len(d.b) > 0 {
			t.Fatalf("%s is left to encoding/json", line)
		}
		if !decodes(t, &d, line) {
			t.Fatalf("%s is no event", line)
		}
	})
}

// Whatever the bytes are, a Decoder says what encoding/json says.
func FuzzDecoder(f *testing.F) {
	e := Event{Schema: 1, TS: 5, Key: "user:42", Rate: 12.5,
		Facts: &Facts{User: "42", Attributes: map[string]string{"a": "b"},
			Fields: map[string]int64{"n": 7}}, Limits: []Limit{{Key: "k", Direct: &Direct{Algorithm: "gcra", Limit: 5}}}}
	f.Add(e.Append(nil))
	for _, line := range []string{`{}`, `null`, ` {"ts" : 1}`, `{"ts":1,"ts":2}`, `{"TS":1}`, `{"ts":01}`, `{"ts":1.5}`,
		`{"ts":1e3}`, `{"ts":-0}`, `{"ts":-}`, `{"ts":99999999999999999999}`, `{"rate":00.5}`, `{"rate":.5}`, `{"rate":1.}`,
		`{"rate":1.5e3}`, `{"rate":12345678901234567890.5}`, `{"key":"\u0041"}`, "{\"key\":\"\xff\"}", "{\"key\":\"\n\"}",
		`{"facts":{},"facts":null}`, `{"facts":{"fields":{"a":1,"a":2}}}`, `{"limits":[]}`, `{"limits":null}`, `{"limits":[,]}`,
		`{"limits":[{}],}`, `{"other":[{"x":1}],"ts":3}`, `{"ts":1}x`, `{"omitted":["a",1]}`, `{"allowed":tru}`, `{"ts":1`,
		`{"rate":0.5,"drawn":true,"facts":{"attributes":{}}}`, `{"schema":"1"}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var d Decoder
		decodes(t, &d, line)
		decodes(t, &d, line) // with shared texts
	})
}
