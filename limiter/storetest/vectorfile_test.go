package storetest

import (
	"strings"
	"testing"
)

func TestParseVectors_NamesFileAndCaseOfWhatItCannotRun(t *testing.T) {
	const limits = `"limits": [{"algorithm": "fixed_window", "limit": 3, "window_ms": 1000}]`
	tests := map[string]struct {
		data string
		want string
	}{
		"not a list":    {`{}`, "mine.json: "},
		"empty":         {`[]`, "no cases"},
		"no id":         {`[{"note": "x"}]`, "case number 1 has no id"},
		"twice":         {`[{"id": "a", ` + limits + `}, {"id": "a", ` + limits + `}]`, "case a appears twice"},
		"unknown field": {`[{"id": "a", "colour": 1, ` + limits + `}]`, "mine.json: case a: json: unknown field"},
		"unknown request field": {`[{"id": "a", ` + limits +
			`, "requests": [{"t_ms": 0, "weight": 1, "cost": 2}], "expect": [null]}]`, "case a: json: unknown field"},
		"unknown op": {`[{"id": "a", ` + limits + `, "requests": [{"t_ms": 0, "op": "dance"}], "expect": [null]}]`,
			`case a: request 0: unknown op "dance"`},
		"no time": {`[{"id": "a", ` + limits + `, "requests": [{"weight": 1}], "expect": [null]}]`,
			"case a: request 0: no t_ms"},
		"fraction": {`[{"id": "a", ` + limits + `, "requests": [{"t_ms": 0.5, "weight": 1}], "expect": [null]}]`,
			"case a: json: "},
		"counts differ": {`[{"id": "a", ` + limits + `, "requests": [{"t_ms": 0, "weight": 1}], "expect": []}]`,
			"1 requests but 0 expectations"},
		"no limits": {`[{"id": "a", "requests": [], "expect": []}]`, "case a: no limits"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseVectors("mine.json", []byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestRunVector_WrongExpectationAndUntaggedRefusalFail(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"wrong": {`[{"id": "a", "limits": [{"algorithm": "fixed_window", "limit": 3, "window_ms": 1000}],
			"requests": [{"t_ms": 0, "weight": 1}], "expect": [{"allowed": true, "remaining": 3}]}]`,
			"remaining: got 2, want 3"},
		"refused": {`[{"id": "a", "limits": [{"algorithm": "fixed_window", "limit": 3, "window_ms": 0}],
			"requests": [{"t_ms": 0, "weight": 1}], "expect": [{"allowed": true}]}]`, "refused: invalid limit: window_ms"},
		"unknown algorithm": {`[{"id": "a", "tags": ["bounds"], "limits": [{"algorithm": "guess", "limit": 3, "window_ms": 1}],
			"requests": [{"t_ms": 0, "weight": 1}], "expect": [{"allowed": true}]}]`, `algorithm "guess"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cases, err := parseVectors("mine.json", []byte(tt.data))
			if err == nil {
				clock := NewClock(0)
				err = runVector(NewReference(clock.Now), clock, &cases[0])
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestVectors_Reference(t *testing.T) {
	Vectors(t, referenceHarness)
}
