package backtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/records"
)

const noon = 1_795_262_400_000 // 2026-11-21T12:00:00Z

// check is the event of an allowed check of a user.
func check(ts int64, user string) records.Event {
	return records.Event{Schema: records.Schema, TS: ts, Allowed: true, Weight: 1, Status: 200, Op: "check", Rate: 100,
		Drawn: true, Facts: &records.Facts{Method: "GET", Route: "/v1/x", User: user}}
}

func text(events ...records.Event) string {
	var b []byte
	for i := range events {
		b = append(events[i].Append(b), '\n')
	}
	return string(b)
}

func logOf(t *testing.T, texts ...string) *Log {
	t.Helper()
	var places []Lines
	for i, text := range texts {
		places = append(places, NewLines(fmt.Sprintf("log %d", i+1), strings.NewReader(text)))
	}
	return NewLog(places...)
}

func run1(t *testing.T, opt Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const perUser = "rules:\n  - {name: per-user, scope: user, algorithm: fixed_window, limit: %d, window_ms: 60000}\n"

// The worked example of the package.
func TestRun_SaysWhatWouldChange(t *testing.T) {
	var events []records.Event
	for i := range int64(120) {
		events = append(events, check(noon+i*400, "42"))
	}
	r := run1(t, Options{Span: Span{Log: logOf(t, text(events...))}, Proposed: compiled(t, fmt.Sprintf(perUser, 100))})
	if r.Checks != 120 || r.DeniedBefore != 0 || r.DeniedAfter != 20 || r.NewlyDenied != 20 || r.NewlyAllowed != 0 {
		t.Errorf("checks %v, denied %v and %v, newly denied %v, allowed %v", r.Checks, r.DeniedBefore, r.DeniedAfter,
			r.NewlyDenied, r.NewlyAllowed)
	}
	if len(r.Rules) != 1 || r.Rules[0] != (RuleChange{"per-user", 0, 20, 20, 0}) {
		t.Errorf("rules %+v", r.Rules)
	}
	if len(r.Keys) != 1 || r.Keys[0] != (KeyChange{"per-user", "user:42", 0, 20, 20, 0}) {
		t.Errorf("keys %+v", r.Keys)
	}
	if len(r.First) != maxFirst || r.First[0].Line != 101 || r.First[0].Before.String() != "allowed: no limit applied" ||
		r.First[0].After.String() != "denied by per-user (user:42): 100 of 100, again after 20s" {
		t.Errorf("first %+v: %s, %s", r.First[0], r.First[0].Before, r.First[0].After)
	}
	if len(r.Demand) != 1 || r.Demand[0].Demand[0] != 120 || r.Demand[0].Limit[0] != 100 {
		t.Errorf("demand %+v", r.Demand)
	}
	var svg bytes.Buffer
	if err := r.WriteSVG(&svg); err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Paths []struct {
			Class string `xml:"class,attr"`
			D     string `xml:"d,attr"`
		} `xml:"g>path"`
	}
	if err := xml.Unmarshal(svg.Bytes(), &picture); err != nil || len(picture.Paths) != 4 || picture.Paths[1].D == "" {
		t.Errorf("the picture has no demand above the limit: %v, %+v", err, picture)
	}
}

func TestRun_ComparesTwoSetsOfRules(t *testing.T) {
	var events []records.Event
	for i := range int64(30) {
		events = append(events, check(noon+i, "42"))
	}
	r := run1(t, Options{Span: Span{Log: logOf(t, text(events...))}, Today: compiled(t, fmt.Sprintf(perUser, 10)),
		Proposed: compiled(t, fmt.Sprintf(perUser, 25))})
	if r.DeniedBefore != 20 || r.DeniedAfter != 5 || r.NewlyAllowed != 15 || r.NewlyDenied != 0 {
		t.Errorf("denied %v and %v, newly allowed %v, denied %v", r.DeniedBefore, r.DeniedAfter, r.NewlyAllowed,
			r.NewlyDenied)
	}
}

// A folded event counts as all its requests, and an event drawn at 10 % as ten.
func TestRun_CountsWhatEventsStandFor(t *testing.T) {
	flood := check(noon, "42")
	flood.Allowed, flood.Status, flood.Folded = false, 429, 499
	flood.Limits = []records.Limit{{Key: "user:42", Rule: "old", Mode: "enforce", Limit: 1, Used: 2, Weight: 1}}
	r := run1(t, Options{Span: Span{Log: logOf(t, text(flood))}, Proposed: compiled(t, fmt.Sprintf(perUser, 100))})
	if r.Checks != 500 || r.DeniedBefore != 500 || r.DeniedAfter != 400 || r.NewlyAllowed != 100 {
		t.Errorf("folded: checks %v, denied %v and %v", r.Checks, r.DeniedBefore, r.DeniedAfter)
	}

	flood.RequestID = "first" // of the first request, and none is a repeat of it
	r = run1(t, Options{Span: Span{Log: logOf(t, text(flood))}, Proposed: compiled(t, fmt.Sprintf(perUser, 100))})
	if r.Checks != 500 || r.DeniedAfter != 400 || r.NewlyAllowed != 100 {
		t.Errorf("folded, with an id: checks %v, denied %v", r.Checks, r.DeniedAfter)
	}

	var events []records.Event
	for i := range int64(12) {
		e := check(noon+i, "42")
		e.Rate = 10
		events = append(events, e)
	}
	lone := check(noon+20, "43")
	lone.Rate, lone.Drawn, lone.Allowed = 10, false, false
	r = run1(t, Options{Span: Span{Log: logOf(t, text(append(events, lone)...))}, Proposed: compiled(t,
		fmt.Sprintf(perUser, 10)+
			"  - {name: all, scope: global, algorithm: fixed_window, limit: 1, window_ms: 60000}\n")})
	if r.Checks != 120 || r.DeniedAfter != 20 {
		t.Errorf("sampled: checks %v, denied %v", r.Checks, r.DeniedAfter)
	}
	want := []Left{{Reason: leftNotDrawn, Events: 1}, {Reason: partShared, Rule: "all", Facts: "user", Events: 12}}
	if !sameLeft(r.Left, want) {
		t.Errorf("left out %+v", r.Left)
	}
}

func sameLeft(got, want []Left) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		g := got[i]
		if g.Text == "" || g.Text == g.Reason {
			return false
		}
		g.Text = ""
		if g != want[i] {
			return false
		}
	}
	return true
}

// What the log does not tell is named, and nothing is concluded from it.
func TestRun_NamesWhatCannotBeReplayed(t *testing.T) {
	hashed := check(noon, "42")
	hashed.Facts.IP = "hash:00112233445566778899aabb"
	descriptors := check(noon+1, "")
	descriptors.Facts = nil
	release := check(noon+2, "")
	release.Facts, release.Op, release.RequestID = nil, "release", "gone"
	hidden := check(noon+3, "(hidden)")
	short := check(noon+4, "42")
	short.Shortened = []string{"facts.attributes"}
	without := check(noon+5, "42")
	without.Omitted = []string{"api_key"}
	r := run1(t, Options{Span: Span{Log: logOf(t, text(hashed, hashed, descriptors, release, hidden, short, without))}, Proposed: compiled(t, `rules:
  - {name: named, scope: user, algorithm: fixed_window, limit: 1, window_ms: 60000, when: 'ip != "203.0.113.7"'}
  - {name: counted, scope: ip, algorithm: fixed_window, limit: 1, window_ms: 60000}
  - {name: keys, scope: apikey, algorithm: fixed_window, limit: 1, window_ms: 60000}
`)})
	want := []Left{{Reason: leftDescriptors, Events: 1}, {Reason: partHashed, Rule: "named", Facts: "ip", Events: 2},
		{Reason: leftHidden, Events: 1}, {Reason: partAbsent, Rule: "keys", Facts: "api_key", Events: 1},
		{Reason: leftShortened, Events: 1}, {Reason: leftToken, Events: 1}}
	if !sameLeft(r.Left, want) {
		t.Errorf("left out %+v", r.Left)
	}
	// The second of the two is denied by the rule that counts by address, which hashes are enough for.
	if len(r.Rules) != 1 || r.Rules[0].Rule != "counted" || r.DeniedAfter != 1 {
		t.Errorf("rules %+v", r.Rules)
	}
}

func TestLog_CountsAndNamesWhatIsCorrupt(t *testing.T) {
	good := text(check(noon, "1"))
	r := run1(t, Options{Span: Span{Log: logOf(t, good+"{\"schema\":1,\"ts\":\n"+good+"no\n"+strings.Repeat("x",
		2*maxLine)+"\n\n"+good)},
		Proposed: compiled(t, fmt.Sprintf(perUser, 2))})
	if r.Replayed != 3 || r.DeniedAfter != 1 || r.Log.Corrupt != 3 || len(r.Log.Problems) != 3 ||
		r.Log.Problems[0].Line != 2 || r.Log.Problems[1].Line != 4 || r.Log.Problems[2].Line != 5 {
		t.Errorf("%+v", r.Log)
	}
}

// Bytes that are no log at all end in problems, never in a panic or in an endless run.
func FuzzParse(f *testing.F) {
	f.Add([]byte(text(check(noon, "1"))))
	f.Add([]byte(`{"schema":1,"ts":1,"op":"settle","weight":-1,"folded":1000000,"rate":1e300}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parse(&records.Decoder{}, line)
		if err == nil && (e.Folded > maxFolded || e.TS <= 0) {
			t.Errorf("%+v", e)
		}
	})
}

func TestLog_ReadsATruncatedFileToWhereItHolds(t *testing.T) {
	var events []records.Event
	for i := range int64(2000) {
		events = append(events, check(noon+i, fmt.Sprint(i*7919%2003)))
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text(events...)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r := run1(t, Options{Span: Span{Log: logOf(t, b.String()[:b.Len()/2])},
		Proposed: compiled(t, fmt.Sprintf(perUser, 2))})
	if r.Replayed == 0 || r.Replayed >= 2000 || len(r.Log.Problems) != 1 ||
		!strings.Contains(r.Log.Problems[0].Text, "what stands before it was read") {
		t.Errorf("replayed %d, %+v", r.Replayed, r.Log)
	}
}

func TestLog_RefusesAnotherSchema(t *testing.T) {
	_, err := Run(t.Context(), Options{Span: Span{Log: logOf(t, text(check(noon, "1"))+`{"schema":2,"ts":{"new":1}}`)},
		Proposed: compiled(t, fmt.Sprintf(perUser, 2))})
	schema, ok := errors.AsType[*SchemaError](err)
	if !ok || schema.Line != 2 || schema.Schema != 2 || !strings.Contains(err.Error(), "use the version of Sluice") {
		t.Errorf("error %v", err)
	}
}

// The logs of several nodes are one log, in order of time; what is too late is counted and not lost.
func TestLog_SortsSeveralPlaces(t *testing.T) {
	first := text(check(noon+10, "a"), check(noon+5, "b"), check(noon+300_000, "c"), check(noon+1, "late"))
	second := text(check(noon+7, "d"), check(noon+200_000, "e"))
	log := logOf(t, first, second)
	var got []string
	last := int64(0)
	for {
		e, err := log.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.TS < last {
			t.Errorf("%s goes back in time", e.Event.Facts.User)
		}
		last = e.TS
		got = append(got, e.Event.Facts.User)
	}
	if want := "b d a e late c"; strings.Join(got, " ") != want && strings.Join(got,
		" ") != "b d a e c late" || log.Late != 1 {
		t.Errorf("order %v, late %d", got, log.Late)
	}
}

func TestRun_StopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var events []records.Event
	for i := range int64(20_000) {
		events = append(events, check(noon+i, "42"))
	}
	n := int64(0)
	_, err := Run(ctx, Options{Span: Span{Log: logOf(t, text(events...)), Each: func(lines, _ int64) bool {
		if n = lines; n == 5000 {
			cancel()
		}
		return true
	}}, Proposed: compiled(t, fmt.Sprintf(perUser, 2))})
	if !errors.Is(err, context.Canceled) || n != 5000 {
		t.Errorf("error %v after %d events", err, n)
	}
}

// A replay that is ended early reports on what it has read, and says so.
func TestRun_EndsEarly(t *testing.T) {
	var events []records.Event
	for i := range int64(100) {
		events = append(events, check(noon+i, "42"))
	}
	r := run1(t, Options{Span: Span{Log: logOf(t, text(events...)), Each: func(lines, _ int64) bool { return lines < 60 }},
		Proposed: compiled(t, fmt.Sprintf(perUser, 2))})
	if !r.Cut || r.Events != 60 || r.Until != noon+59 {
		t.Errorf("cut %t after %d events at %d", r.Cut, r.Events, r.Until)
	}
	// One event that stands for a million is no reason to go on.
	flood := check(noon, "42")
	flood.Allowed, flood.Folded = false, 1_000_000
	n := 0
	r = run1(t, Options{Span: Span{Log: logOf(t, text(flood)), Each: func(_, ts int64) bool {
		if ts > 0 {
			n++
		}
		return n < 1000
	}}, Proposed: compiled(t, fmt.Sprintf(perUser, 2))})
	if !r.Cut || r.Events > 2000 {
		t.Errorf("cut %t after %d events", r.Cut, r.Events)
	}
}

func TestSuggest_FollowsThePeaks(t *testing.T) {
	// Users 1 to 100 have a peak of their number in a second of their own, and one request later.
	var events []records.Event
	for u := range int64(100) {
		for range u + 1 {
			events = append(events, check(noon+u*1000, fmt.Sprint(u+1)))
		}
		events = append(events, check(noon+200_000+u, fmt.Sprint(u+1)))
	}
	set := compiled(t, fmt.Sprintf(perUser, 2))
	s, err := Suggest(t.Context(), SuggestOptions{Span: Span{Log: logOf(t, text(events...))}, Rules: set, Rule: "per-user",
		Windows: []time.Duration{time.Second}, Headroom: 1})
	if err != nil {
		t.Fatal(err)
	}
	if s.Keys != 100 || s.Requests != 5150 {
		t.Errorf("%v keys, %v requests", s.Keys, s.Requests)
	}
	for i, want := range []Suggestion{{50, 50, 50, 50 * 51 / 2 / 51.5, 50}, {95, 95, 95, 15 / 51.5, 5}, {99, 99,
		99, 1 / 51.5, 1},
		{99.9, 100, 100, 0, 0}, {100, 100, 100, 0, 0}} {
		got := s.Windows[0].Limits[i]
		if diff := got.Denied - want.Denied; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("%v %%: denied %v, want %v", want.Percentile, got.Denied, want.Denied)
		}
		got.Denied, want.Denied = 0, 0
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	// The very limit that is suggested denies just what is said.
	r := run1(t, Options{Span: Span{Log: logOf(t, text(events...))}, Proposed: compiled(t,
		"rules:\n  - {name: per-user, scope: user, algorithm: fixed_window, limit: 50, window_ms: 1000}\n")})
	if want := s.Windows[0].Limits[0].Denied / 100 * s.Requests; r.DeniedAfter != want || r.ChangedKeys != 50 {
		t.Errorf("a limit of 50 denies %v of %d keys, suggested %v", r.DeniedAfter, r.ChangedKeys, want)
	}
	if _, err := json.Marshal(s); err != nil {
		t.Error(err)
	}
	var unknown *UnknownRuleError
	if _, err := Suggest(t.Context(), SuggestOptions{Span: Span{Log: logOf(t)}, Rules: set, Rule: "none",
		Windows: []time.Duration{time.Second}, Headroom: 1}); !errors.As(err, &unknown) {
		t.Errorf("error %v", err)
	}
}
