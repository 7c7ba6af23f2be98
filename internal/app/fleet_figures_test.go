package app

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/redact"
)

func TestFigures_OfEveryNodeAreReadOnAny(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	a, b := start(t, cfg), start(t, cfg)
	a.create(`{"name":"r","scope":"user","route":"/v1/x","limit":2,"window_ms":86400000}`)
	eventually(t, "the rule is in force on b", func() bool {
		return len(b.check(`{"user":"probe","route":"/v1/x","weight":0}`)["limits"].([]any)) == 1
	})
	for range 2 {
		a.check(`{"user":"u","route":"/v1/x"}`)
		b.check(`{"user":"u","route":"/v1/x"}`)
	}
	r := history.NewLiveReader(history.NewRedisBoard(redisOf(t, &cfg), cfg.KeyPrefix), time.Now)
	eventually(t, "both nodes' figures are there", func() bool {
		sum, err := sumOf(t, r, "r")
		live := r.Live(t.Context())
		return err == nil && sum.Denied == 2 && sum.Allowed >= 2 && len(live.Nodes) == 2 &&
			live.Nodes[0].SetVersion == live.Nodes[1].SetVersion && live.Nodes[0].Ready && live.Nodes[0].Address != ""
	})
	eventually(t, "both denials are there", func() bool {
		denials, err := r.Denials(t.Context(), history.Filter{Rule: "r"}, 10)
		return err == nil && len(denials) == 2 && denials[0].Key == "user:u" && denials[0].Status == 429 &&
			denials[0].Route == "/v1/x"
	})
}

// TestFigures_OfATrialBeginWithItsVersion: what one candidate would have denied is
// not told of the next, and requests that it did not see do not count.
func TestFigures_OfATrialBeginWithItsVersion(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	n := start(t, cfg)
	rule := n.create(`{"name":"tried","scope":"user","route":"/v1/tried","limit":100,"window_ms":86400000}`)
	id, _ := rule["id"].(float64)
	check := func(times int) {
		for range times {
			n.check(`{"user":"u","route":"/v1/tried"}`)
		}
	}
	patch := func(body string) {
		t.Helper()
		if code, answer := n.send("PATCH", fmt.Sprint("/ratelimit/rules/", id), body); code != 200 {
			t.Fatalf("PATCH: %d %v", code, answer)
		}
	}
	check(3)
	patch(`{"candidate":{"limit":1}}`)
	check(5)
	patch(`{"candidate":{"limit":90}}`)
	check(2)
	n.stop() // it writes everything
	r := readerOf(t, cfg)
	first, err1 := r.Trial(t.Context(), int64(id), []int64{2})
	second, err2 := r.Trial(t.Context(), int64(id), []int64{3})
	if err1 != nil || err2 != nil || first.Seen != 5 || first.Denied != 4 || second.Seen != 2 || second.Denied != 0 {
		t.Errorf("%+v and %+v (%v, %v), want 4 denied of 5, and none of 2", first, second, err1, err2)
	}
}

// readerOf reads the figures that were written, as a node that has decided nothing.
func readerOf(t *testing.T, cfg config.Serve) *history.Reader {
	t.Helper()
	db, err := database.Open(t.Context(), database.Options{DSN: cfg.Database()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return history.NewReader(history.ReaderOptions{Live: history.NewLiveReader(history.NewMemory(time.Now), time.Now),
		Store: db, Own: history.NewOwn(1, history.NewRecorder()), Now: time.Now, Exists: func(string) bool { return true }})
}

// TestFigures_OfACandidateSayWhatWouldChange: a candidate is compared with its rule, request by request.
func TestFigures_OfACandidateSayWhatWouldChange(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	n := start(t, cfg)
	lessRule := n.create(`{"name":"less","scope":"user","route":"/v1/less","limit":3,"window_ms":86400000,
		"candidate":{"limit":1}}`)
	moreRule := n.create(`{"name":"more","scope":"apikey","route":"/v1/more","limit":1,"window_ms":86400000,
		"candidate":{"limit":4}}`)
	const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	for range 5 {
		n.check(`{"user":"u","route":"/v1/less"}`)
		n.check(`{"api_key":"` + secret + `","route":"/v1/more"}`)
	}
	n.stop() // it writes everything
	r := readerOf(t, cfg)
	trial := func(rule map[string]any) history.TrialCounts {
		id, _ := rule["id"].(float64)
		counts, err := r.Trial(t.Context(), int64(id), []int64{1})
		if err != nil {
			t.Fatal(err)
		}
		return counts
	}
	less, more := trial(lessRule), trial(moreRule)
	if strings.Contains(fmt.Sprint(less, more), secret) {
		t.Fatal("a credential is shown")
	}
	if less.Seen != 5 || less.Compared != 5 || less.NewlyDenied != 2 || less.NewlyAllowed != 0 || less.Denied != 4 ||
		len(less.Keys.Entries) != 1 || less.Keys.Entries[0].Key != "user:u" || less.Keys.Entries[0].Denied != 2 {
		t.Errorf("the smaller limit: %+v", less)
	}
	if more.Seen != 5 || more.Compared != 5 || more.NewlyDenied != 0 || more.NewlyAllowed != 3 || more.Denied != 1 ||
		len(more.Keys.Entries) != 1 || more.Keys.Entries[0].Allowed != 3 {
		t.Errorf("the larger limit: %+v", more)
	}
}

// TestTried_ComparesWithTheSameKey: a call of descriptors can use a rule for several keys.
func TestTried_ComparesWithTheSameKey(t *testing.T) {
	limit := func(key limiter.Key, allowed, candidate, known bool) decide.LimitAnswer {
		return decide.LimitAnswer{Rule: "r", Key: key, Known: known, Candidate: candidate, Shadow: candidate,
			Decision: limiter.Decision{Allowed: allowed}}
	}
	a := &decide.Answer{Limits: []decide.LimitAnswer{
		limit("{u:1}|1|fw", true, false, true), limit("{u:2}|1|fw", false, false, true),
		limit("{u:3}|1|fw", true, false, false),
		limit("{u:1}|1|fw|c", false, true, true), limit("{u:2}|1|fw|c", false, true, true),
		limit("{u:3}|1|fw|c", false, true, true), limit("{u:4}|1|fw|c", false, true, true),
	}}
	for i, want := range map[int]history.Tried{3: {Was: true, Compared: true}, 4: {Compared: true}, 5: {Was: true},
		6: {}} {
		if got := tried(a, i); got != want {
			t.Errorf("limit %d: %+v, want %+v", i, got, want)
		}
	}
}

// TestFigures_SamplesHideCredentials: what a caller sent is shown to everyone
// who may read rules.
func TestFigures_SamplesHideCredentials(t *testing.T) {
	secret := "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	q := &decide.Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{
		Method: "GET", Route: "/v1/" + secret + "?k=" + secret, User: secret, APIKey: secret, Tier: secret,
		IP: netip.MustParseAddr("203.0.113.7"), Attributes: map[string]string{"a": secret, "tenant": "acme"},
	}}
	a := &decide.Answer{Op: limiter.OpTake, Verdict: decide.Denied,
		Limits: []decide.LimitAnswer{{Rule: "r", Key: limiter.Key("{user:42}|1|sc")}}}
	f.ObserveDecision(&decide.Decision{Question: q, Answer: a})
	board := history.NewMemory(time.Now)
	p := history.NewPublisher(history.PublisherOptions{Recorder: f.recorder, Board: board, Now: time.Now,
		Status: func() history.Status { return history.Status{ID: "n"} }})
	p.Post(t.Context())
	lines, err := board.Recent(t.Context(), "recent", 0, 10)
	if err != nil || len(lines) != 1 {
		t.Fatalf("samples = %q, %v; want one", lines, err)
	}
	if strings.Contains(lines[0], secret) {
		t.Errorf("the sample shows the credential: %s", lines[0])
	}
	for _, want := range []string{`"user:42"`, `"acme"`, "203.0.113.7", "/v1/" + redact.Hidden} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("the sample lacks %s: %s", want, lines[0])
		}
	}
	if q.Descriptor.Attributes["a"] != secret {
		t.Error("the question was changed")
	}
}

// TestFigures_AllowedRequestsAreSampledWithoutCredentials: they are shown like denials, so they hide as much.
func TestFigures_AllowedRequestsAreSampledWithoutCredentials(t *testing.T) {
	secret := "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	q := &decide.Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{
		Method: secret, Route: "/v1/" + secret + "?k=" + secret, Host: secret, User: secret, APIKey: secret, Tier: secret,
		Attributes: map[string]string{secret: secret, "tenant": "acme"},
	}}
	a := &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed, Strictest: 1, Limits: []decide.LimitAnswer{
		{Rule: "wide", Key: "{global}|2|sc", Known: true, Decision: limiter.Decision{Allowed: true}},
		{Rule: "r", Key: "{user:42}|1|sc", Known: true, Decision: limiter.Decision{Allowed: true, Remaining: 7}},
		{Rule: "r", Key: "{user:42}|1c|sc", Known: true, Candidate: true, Decision: limiter.Decision{Allowed: true}},
	}}
	f.ObserveDecision(&decide.Decision{Question: q, Answer: a})
	f.ObserveDecision(&decide.Decision{Question: q, Answer: &decide.Answer{Op: limiter.OpRefund}}) // no decision
	// a sample of the candidate, and so none as allowed
	a.Limits[2].Decision.Allowed = false
	f.ObserveDecision(&decide.Decision{Question: q, Answer: a})
	board := history.NewMemory(time.Now)
	p := history.NewPublisher(history.PublisherOptions{Recorder: f.recorder, Board: board, Now: time.Now,
		Status: func() history.Status { return history.Status{ID: "n"} }})
	p.Post(t.Context())
	lines, err := board.Recent(t.Context(), "allowed", 0, 10)
	if err != nil || len(lines) != 1 {
		t.Fatalf("samples = %q, %v; want one", lines, err)
	}
	if strings.Contains(lines[0], secret) {
		t.Errorf("the sample shows the credential: %s", lines[0])
	}
	for _, want := range []string{`"user:42"`, `"acme"`, `"allowed":true`, `"also":["wide"]`, `"remaining":7`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("the sample lacks %s: %s", want, lines[0])
		}
	}
	list, err := history.NewLiveReader(board, time.Now).Requests(t.Context(), history.Filter{}, 10)
	if err != nil || len(list) != 2 {
		t.Errorf("%d requests, %v; want that, and what the candidate would deny", len(list), err)
	}
}

// TestFigures_ASampleOfFailModeOpenNamesItsRule, although no limit was the strictest.
func TestFigures_ASampleOfFailModeOpenNamesItsRule(t *testing.T) {
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	limit := limiter.Limit{Algorithm: limiter.FixedWindow, Count: 5, Window: 60_000}
	passed := limiter.Decision{Allowed: true, Limit: 5}
	got := f.sampleAllowed(&decide.Question{Op: limiter.OpTake, Weight: 1}, &decide.Answer{Op: limiter.OpTake,
		Verdict: decide.Allowed, Strictest: -1, Degraded: rules.FailOpen, Limits: []decide.LimitAnswer{
			{Rule: "returned", Key: "{user:41}|1|fw", Limit: limit, Decision: passed, Returned: true},
			{Rule: "r", Key: "{user:42}|1|fw", Limit: limit, Decision: passed, Degraded: rules.FailOpen},
			{Rule: "wide", Key: "{global}|2|fw", Limit: limit, Decision: passed, Degraded: rules.FailOpen}}})
	if got.Rule != "r" || got.Key != "user:42" || got.Limit != 5 || !slices.Equal(got.Also, []string{"wide"}) {
		t.Errorf("%+v, want the first limit that counted, and the others", got)
	}
}

// TestFigures_OnlyASampledRequestCostsAnAllocation: most requests are allowed and not sampled.
func TestFigures_OnlyASampledRequestCostsAnAllocation(t *testing.T) {
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	d := &decide.Decision{Question: &decide.Question{Op: limiter.OpTake, Weight: 1}, Answer: &decide.Answer{
		Op: limiter.OpTake, Verdict: decide.Allowed, Limits: []decide.LimitAnswer{{Rule: "r", Key: "{user:42}|1|sc",
			Known: true, Decision: limiter.Decision{Allowed: true}}}}}
	for range 2000 { // what else is counted of single requests begins to be drawn
		f.ObserveDecision(d)
	}
	if got := testing.AllocsPerRun(1000, func() { f.ObserveDecision(d) }); got > 0 {
		t.Errorf("%g allocations for a request, want none", got)
	}
}

func TestFigures_CountConditionsThatFailed(t *testing.T) {
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	for i := range 5 {
		f.ObserveDecision(&decide.Decision{Question: &decide.Question{Op: limiter.OpTake, Weight: 1}, Answer: &decide.Answer{
			Op: limiter.OpTake, Verdict: decide.Allowed, Limits: []decide.LimitAnswer{{Rule: "r", Key: "{global}|1|fw",
				Known: true, ConditionFailed: i < 2, Decision: limiter.Decision{Allowed: true}}}}})
	}
	board := history.NewMemory(time.Now)
	history.NewPublisher(history.PublisherOptions{Recorder: f.recorder, Board: board, Now: time.Now,
		Status: func() history.Status { return history.Status{ID: "n"} }}).Post(t.Context())
	got, err := sumOf(t, history.NewLiveReader(board, time.Now), "r")
	if err != nil || got.Failed != 2 || got.Allowed != 5 {
		t.Errorf("%+v, %v; want 2 of 5 failed", got, err)
	}
}

func TestFigures_SamplesSayWhyBesideTheLimit(t *testing.T) {
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	q, a := &decide.Question{Op: limiter.OpTake, Weight: 1}, &decide.Answer{Verdict: decide.Shed}
	got := f.sample(q, a, &decide.LimitAnswer{Rule: "r", Shed: "fleet", Ban: 1000}, "user:42")
	if got.Shed != "fleet" || !got.Banned {
		t.Errorf("shed by %q, banned %v; want the pool and the ban", got.Shed, got.Banned)
	}
	if got := f.sample(q, a, &decide.LimitAnswer{Rule: "r"}, "user:42"); got.Shed != "" || got.Banned {
		t.Errorf("shed by %q, banned %v; want neither", got.Shed, got.Banned)
	}
}

// TestFigures_AnOverloadIsNoDecisionOfItsRule: nobody has looked at the limit, and the denial is shown nevertheless.
func TestFigures_AnOverloadIsNoDecisionOfItsRule(t *testing.T) {
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	board := history.NewMemory(time.Now)
	a := &decide.Answer{Verdict: decide.Overloaded, Strictest: -1, Limits: []decide.LimitAnswer{
		{Rule: "r", Key: "{user:42}|1|fw", Overloaded: true},
		{Rule: "s", Key: "{user:42}|2|fw", Overloaded: true, Shadow: true, Decision: limiter.Decision{Allowed: true}}}}
	f.ObserveDecision(&decide.Decision{Question: &decide.Question{Op: limiter.OpTake, Weight: 1}, Answer: a})
	history.NewPublisher(history.PublisherOptions{Recorder: f.recorder, Board: board, Now: time.Now,
		Status: func() history.Status { return history.Status{ID: "n"} }}).Post(t.Context())
	r := history.NewLiveReader(board, time.Now)
	if sum, err := sumOf(t, r, "r"); err != nil || sum.Total() != 0 {
		t.Errorf("of its rule: %+v, %v", sum, err)
	}
	if sum, err := sumOf(t, r, ""); err != nil || sum.Denied != 1 || sum.Total() != 1 || sum.WouldAllow != 0 {
		t.Errorf("of all requests: %+v, %v", sum, err)
	}
	denials, err := r.Denials(t.Context(), history.Filter{}, 10)
	if err != nil || len(denials) != 1 || !denials[0].Overloaded || denials[0].RetryAfter != 1000 ||
		denials[0].Status != 503 {
		t.Errorf("shown: %+v, %v", denials, err)
	}
}

// TestFigures_OfDescriptors: a call of descriptors is one request, whose denials are shown by the key of
// their bucket. What is given back is no decision.
func TestFigures_OfDescriptors(t *testing.T) {
	f := &fleetReporter{recorder: history.NewRecorder(), now: time.Now}
	f.ObserveDecision(&decide.Decision{Answer: &decide.Answer{Op: limiter.OpTake, Verdict: decide.Denied,
		Limits: []decide.LimitAnswer{
			{Rule: "pay", Key: "{shop:path=/pay+user=b}|17|fw", Weight: 3, Known: true},
			{Rule: "tokens", Key: "{shop:tokens=b}|18|fw", Returned: true, Decision: limiter.Decision{Allowed: true}},
		}}})
	board := history.NewMemory(time.Now)
	p := history.NewPublisher(history.PublisherOptions{Recorder: f.recorder, Board: board, Now: time.Now,
		Status: func() history.Status { return history.Status{ID: "n"} }})
	p.Post(t.Context())
	lines, err := board.Recent(t.Context(), "recent", 0, 10)
	if err != nil || len(lines) != 1 {
		t.Fatalf("samples = %q, %v; want one", lines, err)
	}
	for _, want := range []string{`"shop:path=/pay+user=b"`, `"rule":"pay"`, `"weight":3`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("the sample lacks %s: %s", want, lines[0])
		}
	}
	r := history.NewLiveReader(board, time.Now)
	sum, err := sumOf(t, r, "tokens")
	if err != nil || sum != (history.Figures{}) {
		t.Errorf("a refund counts as a decision: %+v, %v", sum, err)
	}
}

// sumOf are the figures of a rule in this minute and the one before.
func sumOf(t *testing.T, r *history.LiveReader, rule string) (sum history.Figures, err error) {
	t.Helper()
	now := time.Now().Unix() / 60
	minutes, err := r.Minutes(t.Context(), now-1, now)
	for i := range minutes {
		sum.Add(minutes[i].Rules[rule])
	}
	return sum, err
}
