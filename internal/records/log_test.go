package records

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

func TestEvent_SaysWhatWasDecidedAndWhatTheRulesSaw(t *testing.T) {
	shadow := perUser("trial", 1)
	shadow.Mode = rules.ModeShadow
	wide := perUser("wide", 100)
	wide.When = new("weight % fields.none == 0")
	f := newFixture(t, []rules.Rule{perUser("strict", 2), wide, shadow}, nil)
	q := user("42")
	q.RequestID, q.Weight = "r-1", 2
	q.Origin = decide.Origin{Face: "http", UserAgent: "shop/1.0", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736"}
	q.Descriptor.Attributes = map[string]string{"plan": "gold"}
	q.Descriptor.Fields = map[string]int64{"tokens": 7}
	f.ask(q)
	f.now.Add(1500)
	q.RequestID, q.Weight = "", 1
	f.ask(q)
	events := f.events()
	if len(events) != 2 {
		t.Fatalf("%d events", len(events))
	}
	first := Event{
		Schema: 1, TS: epoch, Key: "user:42", Rule: "strict", RuleVersion: 10, Limit: 2, Used: 2, Allowed: true, Weight: 2,
		Status: 200, ClientIP: "203.0.113.7", UserAgent: "shop/1.0", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		RequestID: "r-1", Route: "/v1/charges", Method: "POST", Op: "check", Face: "http", Node: "n1", Mode: "enforce",
		Rate: 100, Drawn: true,
		Facts: &Facts{Method: "POST", Route: "/v1/charges", IP: "203.0.113.7", User: "42",
			Attributes: map[string]string{"plan": "gold"}, Fields: map[string]int64{"tokens": 7}},
		Limits: []Limit{
			{Key: "user:42", Rule: "strict", RuleVersion: 10, Mode: "enforce", Limit: 2, Used: 2, Allowed: true, Weight: 2},
			{Key: "user:42", Rule: "wide", RuleVersion: 11, Mode: "enforce", Limit: 100, Used: 2, Allowed: true, Weight: 2,
				ConditionFailed: true},
			{Key: "user:42", Rule: "trial", RuleVersion: 12, Mode: "shadow", Limit: 1, Weight: 2, RetryAfterMS: -1},
		},
	}
	if !reflect.DeepEqual(events[0], first) {
		t.Errorf("got  %+v\nwant %+v", events[0], first)
	}
	second := events[1]
	if second.Allowed || second.Used != 2 || second.Limit != 2 || second.Status != 429 || second.TS != epoch+1500 ||
		second.RetryAfterMS != 58_500 {
		t.Errorf("a denial says %+v", second)
	}
}

// What a charge books above the limit is in its event and in those after it.
func TestEvent_SaysWhatIsUsedAboveTheLimit(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 100)}, nil)
	q := user("42")
	q.Op, q.Weight = limiter.OpCharge, 125
	f.ask(q)
	q.Op, q.Weight = limiter.OpTake, 7
	f.ask(q)
	events := f.events()
	if len(events) != 2 || events[0].Used != 125 || events[0].Allowed || events[1].Used != 125 || events[1].Limit != 100 ||
		events[1].Limits[0].Used != 125 {
		t.Errorf("%+v", events)
	}
}

// A repeat gets the answer of the first request, and has an event at its own time.
func TestEvent_OfARepeatHasItsOwnTime(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 2)}, nil)
	q := user("42")
	q.RequestID = "r-1"
	f.ask(q)
	f.now.Add(1500)
	f.ask(q)
	events := f.events()
	if len(events) != 2 || events[0].TS != epoch || events[1].TS != epoch+1500 || events[1].Used != events[0].Used {
		t.Errorf("%+v", events)
	}
}

func TestEvent_HasDirectLimitsWhole(t *testing.T) {
	f := newFixture(t, nil, nil)
	l := limiter.Limit{Algorithm: limiter.TokenBucket, Count: 5, Window: 1000, Burst: 9}
	f.ask(decide.Question{IsDirect: true, Weight: 1, Direct: decide.Direct{Key: "job:7", Limit: l}})
	f.ask(decide.Question{IsDirect: true, Op: limiter.OpPeek, Direct: decide.Direct{Key: "job:7", Limit: l}})
	f.ask(decide.Question{IsDirect: true, Op: limiter.OpReset, Direct: decide.Direct{Key: "job:7", Limit: l}})
	events := f.events()
	if len(events) != 2 || events[0].Op != "check" || events[1].Op != "reset" {
		t.Fatalf("a check, a peek and a reset are %+v", events)
	}
	e := events[0]
	want := Direct{Algorithm: "token_bucket", Limit: 5, WindowMS: 1000, Burst: 9}
	if e.Facts != nil || e.Key != "job:7" || e.Limit != 9 || e.Used != 1 || *e.Limits[0].Direct != want {
		t.Errorf("the event is %+v with %+v", e, e.Limits[0].Direct)
	}
}

// While the last minute had few allowed requests, all of them are recorded. Each event carries the rate of its time.
func TestLog_IsWholeWhileQuiet(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1_000_000)}, func(o *Options) { o.Rate, o.WholeWhileQuiet = 1, true })
	for i := range quietMost + 2000 {
		f.ask(user(fmt.Sprintf("u%d", i)))
	}
	f.now.Add(61_000) // a minute without requests
	for i := range 10 {
		f.ask(user(fmt.Sprintf("later%d", i)))
	}
	whole, drawn := 0, 0
	for _, e := range f.events() {
		switch {
		case !e.Drawn:
			t.Fatalf("%s: rate %v, not drawn", e.Key, e.Rate)
		case e.Rate == 100:
			whole++
		case e.Rate == 1:
			drawn++
		}
	}
	// 20 of 2,000 are expected at 1 %; the standard deviation is 4.4.
	if whole != quietMost+10 || drawn < 1 || drawn > 45 {
		t.Errorf("%d events at 100%% and %d at 1%%", whole, drawn)
	}
}

func TestLog_DrawsByEntity(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1000)}, func(o *Options) { o.Rate = 10 })
	const users, each = 2000, 3
	for range each {
		for i := range users {
			f.ask(user(fmt.Sprintf("u%d", i)))
		}
	}
	of := map[string]int{}
	for _, e := range f.events() {
		if of[e.Key]++; !e.Drawn || e.Rate != 10 {
			t.Fatalf("%s: rate %v, drawn %v", e.Key, e.Rate, e.Drawn)
		}
	}
	for key, n := range of {
		if n != each {
			t.Errorf("%d of %d events of %s", n, each, key)
		}
	}
	// 200 of 2,000 are expected; the standard deviation is 13.4.
	if len(of) < 140 || len(of) > 260 {
		t.Errorf("%d of %d users are drawn at 10 %%", len(of), users)
	}
	for i := range users {
		q := user(fmt.Sprintf("u%d", i))
		d := &decide.Decision{Question: &q, Answer: &decide.Answer{}}
		if draw(d, 1, match.Options{}.Network) && !draw(d, 10, match.Options{}.Network) {
			t.Fatalf("u%d is drawn at 1 %% and not at 10 %%", i)
		}
	}
}

// The largest percentage that a rule of a request names replaces the usual one, 0 too.
func TestLog_DrawsAtTheRatesOfRules(t *testing.T) {
	named := func(name string, percent *int64) rules.Rule {
		r := perUser(name, 1000)
		r.LogPercent = percent
		return r
	}
	zero, whole := int64(0), int64(100)
	for _, tt := range []struct {
		rules []rules.Rule
		want  int
	}{
		{[]rules.Rule{named("a", nil)}, 0},
		{[]rules.Rule{named("a", &whole)}, 20},
		{[]rules.Rule{named("a", &zero), named("b", &whole), named("c", nil)}, 20},
		{[]rules.Rule{named("a", &whole), named("b", &zero)}, 20},
	} {
		f := newFixture(t, tt.rules, func(o *Options) { o.Rate = 0 })
		for i := range 20 {
			f.ask(user(fmt.Sprintf("u%d", i)))
		}
		if events := f.events(); len(events) != tt.want || tt.want > 0 && (events[0].Rate != 100 || !events[0].Drawn) {
			t.Errorf("%d rules: %d events, want %d", len(tt.rules), len(events), tt.want)
		}
	}
	f := newFixture(t, []rules.Rule{named("a", &zero)}, func(o *Options) { o.Rate = 100 })
	f.ask(user("1"))
	if events := f.events(); len(events) != 0 {
		t.Errorf("%d events of a rule with log_percent 0", len(events))
	}
}

func TestLog_RecordsDenialsOfEverybody(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 0)}, func(o *Options) { o.Rate = 0 })
	for i := range 50 {
		f.ask(user(fmt.Sprintf("u%d", i)))
	}
	events := f.events()
	if len(events) != 50 || events[0].Drawn || events[0].Allowed {
		t.Fatalf("%d of 50 denials, the first %+v", len(events), events[0])
	}
}

func TestLog_DropsWhatDoesNotFitAndCountsIt(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1_000_000)}, nil)
	f.sink.hold = make(chan struct{})
	q := user("42")
	q.Descriptor.Attributes = map[string]string{"text": strings.Repeat("x", 900)}
	f.ask(q)
	<-f.sink.entered // the sink hangs
	f.now.Add(500)
	if age := f.log.Age(); age != 500*time.Millisecond {
		t.Errorf("the event that the sink hangs with is of %s ago", age)
	}
	const more = 2 * maxBuffered / 1000
	for range more {
		f.ask(q)
	}
	if n := len(f.log.buffer.waiting); n > maxBuffered {
		t.Errorf("%d bytes wait", n)
	}
	got := f.account.Totals()
	if got.Produced != more+1 || got.Dropped[RingFull.String()] == 0 || got.Delivered != 0 {
		t.Errorf("with a sink that hangs: %+v", got)
	}
	f.now.Add(1500)
	if age := f.log.Age(); age != 2000*time.Millisecond {
		t.Errorf("the oldest is of %s ago", age)
	}
	f.sink.oldest.Store(epoch - 60_000) // taken by the sink a minute before, and still not delivered
	if age := f.log.Age(); age != 62000*time.Millisecond {
		t.Errorf("the oldest is of %s ago", age)
	}
	f.sink.oldest.Store(0)
	close(f.sink.hold)
	f.events()
	if age := f.log.Age(); age != 0 {
		t.Errorf("nothing waits since %s", age)
	}
	f.ask(q)
	if got := f.account.Totals(); got.Dropped[Shutdown.String()] != 1 {
		t.Errorf("after Close: %+v", got)
	}
}

func TestAppend_IsWhatEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := rapid.Make[Event]().Draw(rt, "event") // every member
		e.Rate = rapid.Float64Range(0, 100).Draw(rt, "rate")
		if e.Limits == nil {
			e.Limits = []Limit{}
		}
		ours := e.Append(nil)
		theirs, err := json.Marshal(&e)
		if err != nil {
			rt.Fatal(err)
		}
		var a, b any
		if err := json.Unmarshal(ours, &a); err != nil {
			rt.Fatalf("%s: %v", ours, err)
		}
		if err := json.Unmarshal(theirs, &b); err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			rt.Fatalf("ours   %s\ntheirs %s", ours, theirs)
		}
	})
}

func TestEvent_IsShortenedFieldByField(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 10)}, nil)
	q := user("42")
	q.Origin.UserAgent = strings.Repeat("a", 5000)
	q.Descriptor.Attributes = map[string]string{"short": "kept"}
	for i := range 30 {
		q.Descriptor.Attributes[fmt.Sprintf("long%d", i)] = strings.Repeat("x", 900)
	}
	f.ask(q)
	lines := f.close()
	conforms(t, lines[0])
	if len(lines[0]) > MaxEvent+1 {
		t.Errorf("an event of %d bytes", len(lines[0]))
	}
	var e Event
	if err := json.Unmarshal(lines[0], &e); err != nil {
		t.Fatal(err)
	}
	if e.Facts == nil || e.Facts.Attributes["short"] != "kept" || len(e.Facts.Attributes) != 1 {
		t.Errorf("the facts are %+v", e.Facts)
	}
	if want := []string{"user_agent", "facts.attributes"}; !reflect.DeepEqual(e.Shortened, want) {
		t.Errorf("shortened says %v", e.Shortened)
	}
	q.Descriptor.Attributes = nil
	cut := f.log.conceal.event(&rawEvent{agent: q.Origin.UserAgent}, "").UserAgent
	if cut != strings.Repeat("a", decide.MaxUserAgent) {
		t.Error("a user agent is not cut to its bound")
	}
}

func TestEvent_HasNoSecret(t *testing.T) {
	secrets := []string{"sk_live_4eC39HqLyjWDarjtT1zdp7dc", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "xoxb-123-456",
		"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1"}
	for _, address := range []string{AddressPrefix, AddressWhole, AddressHash, AddressNone} {
		rs := []rules.Rule{perUser("users", 3), perUser("keys", 3), perUser("tenants", 3), perUser("routes", 3)}
		rs[1].Scope, rs[2].Scope, rs[3].Scope = "apikey", "attr:tenant", "route"
		f := newFixture(t, rs, func(o *Options) { o.Address = address })
		plain := "not-by-its-look"
		for _, s := range append(secrets, plain) {
			q := decide.Question{Weight: 1, RequestID: "r", Origin: decide.Origin{Face: "http"},
				Descriptor: match.Descriptor{APIKey: s, IP: netip.MustParseAddr("198.51.100.23")}}
			if s != plain { // only the member says that this one is a key
				d := &q.Descriptor
				d.User, d.Tier, d.Host = s, s, "example.com"
				d.Route = "/v1/" + strings.ReplaceAll(s, "/", "-") + "/x?token=" + s // a slash would be a part of the path
				d.Attributes = map[string]string{"tenant": s, s: "1"}
				d.Fields = map[string]int64{s: 1}
				q.Origin.UserAgent, q.Origin.TraceID = "tool/1 (Bearer "+s+`) key:`+s+` {"token":"`+s+`"}`, s
				if len(s) <= 64 {
					q.RequestID = s
				}
			}
			for range 4 { // the last one is denied
				f.ask(q)
			}
			f.ask(decide.Question{IsDirect: true, Weight: 1, Direct: decide.Direct{Key: "k:" + s, Name: "n",
				Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: 1000}}})
		}
		all := bytes.Join(f.close(), nil)
		for _, s := range secrets[:3] {
			if bytes.Contains(all, []byte(s)) {
				t.Errorf("addresses %s: the log has %s", address, s)
			}
		}
		hashed := bytes.ReplaceAll(all, []byte(`"trace_id":"`+secrets[3]+`"`), nil) // has the form of an id
		for _, s := range secrets[3:] {
			if bytes.Contains(hashed, []byte(s)) {
				t.Errorf("addresses %s: the log has %s", address, s)
			}
		}
		if bytes.Contains(all, []byte("sha256:")) {
			t.Errorf("addresses %s: the log has a hash without a key, which a list of keys can be compared with", address)
		}
		if address != AddressWhole && bytes.Contains(all, []byte("198.51.100.23")) {
			t.Errorf("addresses %s: the log has an address", address)
		}
	}
}

// A fact that is never recorded is nowhere in an event, however it is written: not in the names of buckets either.
func TestEvent_HasNoOmittedFact(t *testing.T) {
	rs := []rules.Rule{perUser("a", 3), perUser("b", 3), perUser("c", 3), perUser("d", 3)}
	rs[1].Scope, rs[2].Scope, rs[3].Scope = "user+attr:email", "attr:email", "ip+route"
	f := newFixture(t, rs, func(o *Options) {
		o.Omit = []string{"user", "attr:email", "ip", "route"} // and addresses are shown whole
	})
	const user, email = "Ann Planted+x@planted.example, 1;2|3", "planted+ip:7@planted.example"
	const route = "/planted/a+b,c;d@planted"
	f.ask(decide.Question{Weight: 1, Descriptor: match.Descriptor{User: user, Route: route, Method: "GET",
		IP: netip.MustParseAddr("198.51.100.23"), Attributes: map[string]string{"email": email}}})
	f.ask(decide.Question{IsDirect: true, Weight: 1, Direct: decide.Direct{Key: "user:ann@planted.example", Name: "n",
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: 1000}}})
	lines := f.close()
	if len(lines) != 2 || !bytes.Contains(lines[0], []byte(`"key":"user:hash:`)) ||
		!bytes.Contains(lines[0], []byte(`attr:email:hash:`)) || !bytes.Contains(lines[0], []byte(`"ip:hash:`)) ||
		!bytes.Contains(lines[1], []byte(`"key":"user:hash:`)) {
		t.Errorf("the events are %s", lines)
	}
	for _, line := range lines {
		for _, part := range []string{"lanted", "Ann", "198.51", "+x", ";2"} {
			if bytes.Contains(line, []byte(part)) {
				t.Errorf("an event has %q: %s", part, line)
			}
		}
	}
}

func TestConceal_KeepsEqualValuesEqual(t *testing.T) {
	c := conceal{secret: func() []byte { return []byte("k") }, address: AddressPrefix,
		network: match.Options{}.Network, omit: map[string]bool{"user": true}}
	whole := conceal{secret: c.secret, address: AddressWhole}
	const hashed = "%hAZaz09-_AZaz"
	shown := c.hash("sha256:AZaz09-_AZaz")
	for in, want := range map[limiter.Key][2]string{ // by prefix and without users, and whole
		"{user:42+ip:203.0.113.7}|1|fw": {"user:" + c.hash("42") + "+ip:" + c.hash("203.0.113.7"), "user:42+ip:203.0.113.7"},
		"{user:a@b.c}|1|fw":             {"user:" + c.hash("a@b.c"), "user:a@b.c"},
		"{ip:2001:db8::/64}|1|fw":       {"ip:" + c.hash("2001:db8::/64"), "ip:2001:db8::/64"},
		"{attr:tenant:acme}|1|fw":       {"attr:tenant:acme", "attr:tenant:acme"},
		"{global}|1|fw":                 {"global", "global"},
		"{apikey:" + hashed + "}|1|fw":  {"apikey:" + shown, "apikey:" + shown},
		"{attr:t:" + hashed + "}|1|fw":  {"attr:t:" + shown, "attr:t:" + shown},
		"{edge:remote_address=%3A%3A1+user=7}|1|fw": {"edge:remote_address=" + c.hash("::1") + "+user=" + c.hash("7"),
			"edge:remote_address=::1+user=7"},
	} {
		if got := [2]string{c.key(in), whole.key(in)}; got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string][2]string{
		"203.0.113.7":                {c.hash("203.0.113.7"), "203.0.113.7"},
		"::1":                        {c.hash("::1"), "::1"},
		"limit:ip:203.0.113.7:login": {"limit:ip:" + c.hash("203.0.113.7") + ":login", "limit:ip:203.0.113.7:login"},
		"limit:ip:2001:db8::1":       {"limit:ip:" + c.hash("2001:db8::1"), "limit:ip:2001:db8::1"},
		"job:7|user:ann@b.c|ip:1.2.3.4": {"job:7|user:" + c.hash("ann@b.c") + "|ip:" + c.hash("1.2.3.4"),
			"job:7|user:ann@b.c|ip:1.2.3.4"},
		"sha256:AZaz09-_AZaz":        {shown, shown},
		"apikey:sha256:AZaz09-_AZaz": {"apikey:" + shown, "apikey:" + shown},
		"apikey:plain":               {"apikey:" + c.hash("plain"), "apikey:" + c.hash("plain")},
		"job:7|api_key=a+b,c|d":      {"job:7|api_key=" + c.hash("a+b,c|d"), "job:7|api_key=" + c.hash("a+b,c|d")},
		"apikey:api_key:a":           {"apikey:" + c.hash("api_key:a"), "apikey:" + c.hash("api_key:a")},
		"apikey:":                    {"apikey:", "apikey:"},
		"at 12:30":                   {"at 12:30", "at 12:30"},
	} {
		if got := [2]string{c.directKey(in), whole.directKey(in)}; got != want {
			t.Errorf("the caller's key %s is %s, want %s", in, got, want)
		}
	}
	if a, b := c.text("sk_live_a1"), c.text("sk_live_a1"); a != b || a == c.text("sk_live_a2") {
		t.Error("equal credentials have different hashes")
	}
	for ip, want := range map[string]string{"2001:db8:1:2::3": "2001:db8:1::/48", "203.0.113.255": "203.0.113.0/24"} {
		if got := c.clientIP(netip.MustParseAddr(ip)); got != want {
			t.Errorf("by prefix: %s", got)
		}
	}
	if c.secret = func() []byte { return nil }; c.text("sk_live_a1") != "(hidden)" {
		t.Error("without the key a credential is shown")
	}
}
