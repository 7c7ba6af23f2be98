package incident_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"sluice/internal/history/incident"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/field"
)

// events is a incident.Store in memory. Err, if not nil, is what every call fails with.
type events struct {
	err  error
	rows map[string]incident.Event
}

func (s *events) AddEvents(_ context.Context, all []incident.Event) error {
	if s.err != nil {
		return s.err
	}
	for _, e := range all {
		s.rows[e.ID] = e
	}
	return nil
}

func (s *events) Events(_ context.Context, kinds []string, from, to time.Time, limit int) ([]incident.Event, error) {
	var out []incident.Event
	for _, e := range s.rows {
		if s.err == nil && slices.Contains(kinds, e.Kind) && e.At.Before(to) && (e.End.IsZero() || !e.End.Before(from)) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b incident.Event) int { return b.At.Compare(a.At) })
	return out[:min(len(out), limit)], s.err
}

func (s *events) CleanEvents(_ context.Context, before time.Time, limit int) (n int64, err error) {
	for id, e := range s.rows {
		if int(n) < limit && e.At.Before(before) {
			delete(s.rows, id)
			n++
		}
	}
	return n, s.err
}

// noted is a node that notes incidents.
type noted struct {
	t       time.Time
	log     *incident.Log
	trouble *trouble.Registry
	store   *events
	writer  *incident.Writer
	reader  *incident.Reader
}

// The conditions that have incidents.
var (
	redisDown    = trouble.Declare(trouble.Condition{Code: incident.CodeRedis, Incident: incident.Breaker})
	databaseDown = trouble.Declare(trouble.Condition{Code: "database", Incident: incident.Database})
	cutOff       = trouble.Declare(trouble.Condition{Code: "cut_off", Incident: incident.Regions})
	lacksCPU     = trouble.Declare(trouble.Condition{Code: incident.CodeStarved, Incident: incident.Starved})
)

func (n *noted) breaker(server string, open bool, cause string) {
	if !open {
		n.trouble.Clear(redisDown, server)
		return
	}
	n.trouble.Set(trouble.Trouble{Condition: redisDown, Subject: server, Since: n.now(), Cause: cause})
}

func (n *noted) starved(lacks bool) {
	if !lacks {
		n.trouble.Clear(lacksCPU, "")
		return
	}
	n.trouble.Set(trouble.Trouble{Condition: lacksCPU, Since: n.now(), Cause: "raise its CPU limit"})
}

// regions notes which of two regions are cut off.
func (n *noted) regions(cut []string, longest time.Duration, cause string) {
	for _, name := range []string{"us", "asia"} {
		if !slices.Contains(cut, name) {
			n.trouble.Clear(cutOff, name)
			continue
		}
		n.trouble.Set(trouble.Trouble{Condition: cutOff, Subject: name, Since: n.now().Add(-longest), Cause: cause})
	}
}

func (n *noted) now() time.Time      { return n.t }
func (n *noted) add(d time.Duration) { n.t = n.t.Add(d) }

func newNoted(t *testing.T) *noted {
	t.Helper()
	n := &noted{t: time.Date(2026, 11, 23, 0, 5, 52, 0, time.UTC),
		store: &events{rows: map[string]incident.Event{}}}
	n.log = incident.NewLog("n1", "", n.now)
	n.writer = incident.NewWriter(n.log, n.store, nil)
	n.trouble = trouble.New(slog.New(slog.DiscardHandler), n.now, n.log.Note)
	n.reader = incident.NewReader(n.log, n.store, n.now)
	n.log.Started("10.0.0.1:8080")
	return n
}

// elsewhere reads what another node can know.
func (n *noted) elsewhere(t *testing.T) []incident.Incident {
	t.Helper()
	n.writer.Write(t.Context())
	other := incident.NewReader(incident.NewLog("n2", "", n.now), n.store, n.now)
	all, err := other.Incidents(t.Context(), incident.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// decide lets a fail mode decide a request of one rule.
func (n *noted) decide(rule, mode string, denied bool) {
	n.log.Failed("timeout")
	n.log.Decided(incident.CodeRedis, incident.ByFailMode{Mode: mode, Denied: denied},
		[]incident.ByFailMode{{Rule: rule, Mode: mode, Denied: denied}})
}

func TestIncident_ABreakerThatOpensAndClosesIsOne(t *testing.T) {
	n := newNoted(t)
	begin := n.now()
	n.breaker("redis:6379", true, "connection refused")
	for i := range 620 {
		n.decide("charges", "local", i < 7)
	}
	for range 14 {
		n.decide("logins", "closed", true)
	}
	n.add(20 * time.Second)
	if got := n.elsewhere(t); len(got) != 1 || !got[0].Running() || got[0].Total.Local != 620 {
		t.Fatalf("while it lasts: %+v", got)
	}
	n.add(28 * time.Second)
	n.breaker("redis:6379", false, "")
	end := n.now()
	n.add(time.Hour)
	got := n.elsewhere(t)
	if len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	in := got[0]
	if in.Kind != incident.Breaker || !in.Begin.Equal(begin) || !in.End.Equal(end) || in.Server != "redis:6379" ||
		in.Cause != "connection refused" || in.Node != "10.0.0.1:8080" {
		t.Errorf("got %+v", in)
	}
	want := []incident.Rule{{Rule: "charges", Local: 620, Denied: 7}, {Rule: "logins", Closed: 14, Denied: 14}}
	if !slices.Equal(in.Rules, want) || in.Total != (incident.Rule{Local: 620, Closed: 14, Denied: 21}) {
		t.Errorf("counts %+v of %+v", in.Total, in.Rules)
	}
	for q, want := range map[incident.Query]int{
		{Rule: "logins"}: 1, {Rule: "other"}: 0, {Node: "10.0.0.2:8080"}: 0, {Node: "10.0.0.1:8080"}: 1,
		{From: end.Add(time.Second)}: 0, {From: begin.Add(time.Second), To: begin.Add(2 * time.Second)}: 1, {To: begin}: 0,
	} {
		if got, err := n.reader.Incidents(t.Context(), q); err != nil || len(got) != want {
			t.Errorf("%+v finds %d (%v), want %d", q, len(got), err, want)
		}
	}
}

func TestIncident_TimeoutsThatOpenABreakerBelongToIt(t *testing.T) {
	n := newNoted(t)
	begin := n.now()
	for range 5 {
		n.decide("charges", "open", false)
	}
	n.add(100 * time.Millisecond)
	n.breaker("redis:6379", true, "connection refused")
	n.decide("charges", "open", false)
	got := n.elsewhere(t)
	if len(got) != 1 || got[0].Kind != incident.Breaker || !got[0].Begin.Equal(begin) || got[0].Total.Open != 6 {
		t.Errorf("got %+v", got)
	}
}

func TestIncident_TimeoutsAreOneUntilTheyCease(t *testing.T) {
	n := newNoted(t)
	for range 3 {
		n.decide("charges", "open", false)
		n.add(time.Minute)
	}
	got := n.elsewhere(t)
	if len(got) != 1 || got[0].Kind != incident.Timeouts || got[0].End.Sub(got[0].Begin) != 2*time.Minute ||
		got[0].Cause != "timeout" || got[0].Opened != 0 {
		t.Fatalf("got %+v", got)
	}
	n.add(10 * time.Minute)
	n.decide("charges", "open", false)
	if got = n.elsewhere(t); len(got) != 2 || !got[0].Running() || got[0].Total.Open != 1 || got[1].Total.Open != 3 {
		t.Errorf("after ten quiet minutes: %+v", got)
	}
}

func TestIncident_BreakersOfANodeThatOverlapAreOne(t *testing.T) {
	n := newNoted(t)
	n.breaker("b:6379", true, "timeout")
	n.add(time.Second)
	n.breaker("a:6379", true, "connection refused")
	n.breaker("b:6379", false, "")
	if got := n.elsewhere(t); len(got) != 1 || !got[0].Running() {
		t.Fatalf("one of two is open: %+v", got)
	}
	n.breaker("a:6379", false, "")
	n.add(5 * time.Second) // and again soon
	n.breaker("a:6379", true, "connection refused")
	n.breaker("a:6379", false, "")
	got := n.elsewhere(t)
	if len(got) != 1 || got[0].Running() || got[0].Opened != 3 || got[0].Server != "a:6379, b:6379" ||
		got[0].Cause != "timeout, connection refused" {
		t.Errorf("got %+v", got)
	}
}

func TestIncident_WaitsWhileTheRuleDatabaseIsUnavailable(t *testing.T) {
	n := newNoted(t)
	n.writer.Write(t.Context())
	n.store.err = rules.ErrUnavailable
	n.trouble.Note(databaseDown, "", fmt.Errorf("%w: %w", rules.ErrUnavailable, syscall.ECONNREFUSED))
	n.breaker("redis:6379", true, "timeout")
	n.decide("charges", "open", false)
	n.writer.Write(t.Context())
	own, err := n.reader.Incidents(t.Context(), incident.Query{})
	if !errors.Is(err, rules.ErrUnavailable) || len(own) != 2 || !own[0].Running() || !own[1].Running() {
		t.Errorf("meanwhile this node knows %+v, %v", own, err)
	}
	n.breaker("redis:6379", false, "")
	n.add(time.Minute)
	n.writer.Write(t.Context())
	n.store.err = nil
	n.trouble.Clear(databaseDown, "")
	got := n.elsewhere(t)
	if len(got) != 2 || got[0].Running() || got[1].Running() || got[0].Total.Decided()+got[1].Total.Decided() != 1 {
		t.Errorf("afterwards %+v", got)
	}
	i := slices.IndexFunc(got, func(i incident.Incident) bool { return i.Kind == incident.Database })
	if i < 0 || got[i].Cause != "connection refused" || got[i].End.Sub(got[i].Begin) != time.Minute {
		t.Errorf("of the database: %+v", got)
	}
}

func TestIncident_MemoryIsBoundedAndLosesNoCount(t *testing.T) {
	n := newNoted(t)
	n.store.err = rules.ErrUnavailable
	const outages, each = 400, 4
	for i := range outages {
		n.breaker("redis:6379", true, "timeout")
		for j := range each {
			n.decide(fmt.Sprintf("rule-%d", each*i+j), "local", j == 0)
		}
		n.breaker("redis:6379", false, "")
		n.add(4 * time.Minute)
		n.writer.Write(t.Context())
	}
	n.store.err = nil
	var sum, of incident.Rule
	var merged int64
	got := n.elsewhere(t)
	for _, in := range got {
		sum.Add(in.Total)
		merged += in.Merged
		if len(in.Rules) > incident.MaxRules+1 {
			t.Errorf("%d rules", len(in.Rules))
		}
		for _, r := range in.Rules {
			of.Add(r)
		}
	}
	if len(got) > 300 || int(merged)+len(got) != outages || sum != of ||
		sum != (incident.Rule{Local: outages * each, Denied: outages}) {
		t.Errorf("%d incidents, %d merged, total %+v, of rules %+v", len(got), merged, sum, of)
	}
}

func TestIncident_ManyInAnHourContinueOne(t *testing.T) {
	n := newNoted(t)
	for range 100 {
		n.breaker("redis:6379", true, "timeout")
		n.decide("charges", "open", false)
		n.breaker("redis:6379", false, "")
		n.add(20 * time.Second)
		n.writer.Write(t.Context())
	}
	got := n.elsewhere(t)
	var sum int64
	for _, in := range got {
		sum += in.Total.Open
	}
	if len(got) > 30 || sum != 100 {
		t.Errorf("%d incidents with %d decisions", len(got), sum)
	}
}

func TestIncident_EndsWithItsNode(t *testing.T) {
	n := newNoted(t)
	n.breaker("redis:6379", true, "timeout")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.writer.Run(ctx) }()
	stop()
	<-done
	if got := n.elsewhere(t); len(got) != 1 || !got[0].Stopped || got[0].Running() {
		t.Errorf("got %+v", got)
	}
	kinds := map[string]int{}
	for _, e := range n.store.rows {
		kinds[e.Kind]++
	}
	if kinds[incident.EventNodeStarted] != 1 || kinds[incident.EventNodeStopped] != 1 {
		t.Errorf("events %v", kinds)
	}
}

func TestIncident_OfANodeThatDiedIsLost(t *testing.T) {
	n := newNoted(t)
	n.breaker("redis:6379", true, "timeout")
	n.elsewhere(t)
	dead := n.log
	n.add(2 * time.Minute)
	other := incident.NewReader(incident.NewLog("n2", "", n.now), n.store, n.now)
	got, err := other.Incidents(t.Context(), incident.Query{})
	if err != nil || len(got) != 1 || !got[0].Lost || got[0].Running() || !got[0].End.IsZero() {
		t.Errorf("got %+v, %v", got, err)
	}
	if running, _ := other.Running(t.Context()); len(running) != 0 {
		t.Errorf("running %+v", running)
	}
	if own := dead.Own(); len(own) != 1 || !own[0].Running() { // it was only slow
		t.Errorf("own %+v", own)
	}
}

// Cuts that overlap, or follow each other soon, are one incident. It begins when the first region was cut off.
func TestIncident_OfRegionsThatAreCutOff(t *testing.T) {
	n := newNoted(t)
	n.regions(nil, 0, "")
	if got := n.elsewhere(t); len(got) != 0 {
		t.Fatalf("nothing is cut off: %+v", got)
	}
	begin := n.now()
	n.add(3 * time.Second)
	n.regions([]string{"us"}, 3*time.Second, "eu hears nothing from us")
	n.add(time.Second)
	n.regions([]string{"us", "asia"}, 4*time.Second, "eu hears nothing from us")
	n.add(time.Minute)
	n.regions(nil, 0, "")
	n.add(5 * time.Second)
	n.regions([]string{"us"}, 3*time.Second, "us refuses the messages of eu")
	if got := n.elsewhere(t); len(got) != 1 || !got[0].Running() {
		t.Fatalf("again after 5 s: %+v", got)
	}
	n.regions(nil, 0, "")
	end := n.now()
	got := n.elsewhere(t)
	if len(got) != 1 || got[0].Kind != incident.Regions || !got[0].Begin.Equal(begin) || !got[0].End.Equal(end) ||
		got[0].Server != "asia, us" || got[0].Cause != "eu hears nothing from us, us refuses the messages of eu" {
		t.Errorf("got %+v", got)
	}
	n.add(time.Minute)
	n.regions([]string{"us"}, 3*time.Second, "eu hears nothing from us")
	if got := n.elsewhere(t); len(got) != 2 || got[0].Server != "us" || !got[0].Running() {
		t.Errorf("a minute later: %+v", got)
	}
}

// A node that lacks CPU has an incident of its own. What fail modes decide because of it is none of Redis.
func TestIncident_OfANodeThatLacksCPU(t *testing.T) {
	n := newNoted(t)
	late := func() {
		n.log.Decided(incident.CodeStarved, incident.ByFailMode{Mode: "closed", Denied: true},
			[]incident.ByFailMode{{Rule: "charges", Mode: "closed", Denied: true}})
	}
	late()
	n.starved(false)
	if got := n.elsewhere(t); len(got) != 0 {
		t.Fatalf("without a lack of CPU: %+v", got)
	}
	begin := n.now()
	n.starved(true)
	late()
	n.add(time.Minute)
	n.starved(true)
	if got := n.elsewhere(t); len(got) != 1 || !got[0].Running() {
		t.Fatalf("after a minute: %+v", got)
	}
	n.starved(false)
	n.add(5 * time.Second)
	n.starved(true) // the same one
	n.add(time.Second)
	end := n.now()
	n.starved(false)
	n.add(time.Minute)
	n.starved(false)
	got := n.elsewhere(t)
	if len(got) != 1 || got[0].Kind != incident.Starved || !got[0].Begin.Equal(begin) || !got[0].End.Equal(end) ||
		got[0].Cause != "raise its CPU limit" || got[0].Total.Closed != 1 || len(got[0].Rules) != 1 {
		t.Errorf("got %+v", got)
	}
	n.starved(true)
	n.log.Stopped()
	if got := n.elsewhere(t); len(got) != 2 || !got[0].Stopped {
		t.Errorf("after the node stopped: %+v", got)
	}
}

func TestIncidentQuery_SaysWhatIsWrong(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	for member, q := range map[string]incident.Query{
		"from": {From: time.Unix(-5, 0)}, "to": {From: at, To: at},
	} {
		var invalid *field.ValidationError
		if err := q.Validate(); !errors.As(err, &invalid) || invalid.Fields[0].Field != member {
			t.Errorf("%s: %v", member, err)
		}
	}
}

// outages are the incidents that a reader makes of those of several nodes.
func outages(t *testing.T, all ...incident.Incident) []incident.Incident {
	t.Helper()
	n := newNoted(t)
	n.t = all[0].Updated
	for i := range all {
		data, err := json.Marshal(all[i])
		if err != nil {
			t.Fatal(err)
		}
		n.store.rows[all[i].ID] = incident.Event{ID: all[i].ID, Kind: incident.EventIncident, At: all[i].Begin,
			End: all[i].End, Node: all[i].Node, Data: data}
	}
	return n.elsewhere(t)
}

// of is an incident of a node, from and to seconds after a moment; to 0 while it lasts.
func of(node, key string, from, to int) incident.Incident {
	begin := time.Date(2026, 11, 23, 0, 5, 0, 0, time.UTC)
	i := incident.Incident{ID: fmt.Sprint(node, "-", from), Kind: incident.Breaker, Key: key, NodeID: node,
		Node: node + ":8080", Begin: begin.Add(time.Duration(from) * time.Second), Updated: begin.Add(5 * time.Minute),
		Server: "redis:6379", Cause: "timeout", Opened: 1, Total: incident.Rule{Open: 2},
		Rules: []incident.Rule{{Rule: "charges", Open: 2}}}
	if to > 0 {
		i.End = begin.Add(time.Duration(to) * time.Second)
	}
	return i
}

func TestIncident_OneOutageOfSeveralNodesIsOne(t *testing.T) {
	a, b, c := of("a", "redis", 3, 50), of("b", "redis", 0, 40), of("c", "redis", 59, 61)
	a.Kind, c.Server, c.Cause = incident.Timeouts, "other:6379", "connection refused"
	got := outages(t, a, b, c)
	if len(got) != 1 {
		t.Fatalf("got %+v", got)
	}
	in := got[0]
	if in.ID != b.ID || in.Node != b.Node || !slices.Equal(in.Nodes, []string{b.Node, a.Node, c.Node}) ||
		!in.Begin.Equal(b.Begin) || !in.End.Equal(c.End) || in.Kind != incident.Breaker || in.Opened != 3 ||
		in.Server != "other:6379, redis:6379" || in.Cause != "timeout, connection refused" || in.Total.Open != 6 ||
		len(in.Rules) != 1 || in.Rules[0].Open != 6 {
		t.Errorf("got %+v", in)
	}
}

func TestIncident_WhatIsNotOneOutageStaysTwo(t *testing.T) {
	for what, two := range map[string][2]incident.Incident{
		"another condition":      {of("a", "redis", 0, 40), of("b", "database", 0, 40)},
		"another region":         {of("a", "redis/eu", 0, 40), of("b", "redis/us", 0, 40)},
		"later":                  {of("a", "redis", 0, 40), of("b", "redis", 50, 60)},
		"the same node, by turn": {of("a", "redis", 0, 40), of("a", "redis", 41, 60)},
	} {
		if got := outages(t, two[0], two[1]); len(got) != 2 || len(got[0].Nodes) != 1 {
			t.Errorf("%s: got %+v", what, got)
		}
	}
}

func TestIncident_AnOutageLastsAsLongAsOneNodeHasIt(t *testing.T) {
	stopped, died := of("a", "redis", 0, 30), of("b", "redis", 1, 0)
	stopped.Stopped = true
	died.Updated = died.Begin.Add(20 * time.Second)
	ended := of("c", "redis", 2, 60)
	for what, c := range map[string]struct {
		all   []incident.Incident
		state string
		end   time.Time
	}{
		"one runs":       {[]incident.Incident{ended, of("d", "redis", 4, 0)}, "running", time.Time{}},
		"the first runs": {[]incident.Incident{ended, of("d", "redis", 1, 0)}, "running", time.Time{}},
		"one stopped":    {[]incident.Incident{ended, stopped}, "ended", ended.End},
		"one died":       {[]incident.Incident{ended, died}, "ended", ended.End},
	} {
		got := outages(t, c.all...)
		if len(got) != 1 || got[0].State() != c.state || !got[0].End.Equal(c.end) {
			t.Errorf("%s: got %+v", what, got)
		}
	}
}

// The conditions of a node have keys that say which region or node has them.
func TestIncident_Keys(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 11, 23, 0, 5, 0, 0, time.UTC) }
	for region, want := range map[string][]string{"": {"node_starved/n1", "redis_unavailable"},
		"eu": {"node_starved/n1", "redis_unavailable/eu"}} {
		log := incident.NewLog("n1", region, now)
		known := trouble.New(slog.New(slog.DiscardHandler), now, log.Note)
		known.Set(trouble.Trouble{Condition: redisDown, Subject: "redis:6379", Since: now(), Cause: "timeout"})
		known.Set(trouble.Trouble{Condition: lacksCPU, Since: now()})
		var got []string
		for _, i := range log.Own() {
			got = append(got, i.Key)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("region %q: keys %q", region, got)
		}
	}
}
