package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
)

func perUser(n int64) []rules.Rule { return []rules.Rule{rule(1, "per-user", "user", n)} }

// problemOf decodes a problem document.
func problemOf(t testing.TB, a answered) (kind string, status int) {
	t.Helper()
	var p struct {
		Type   string
		Status int
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%v: %q", err, a.body)
	}
	if strings.HasPrefix(p.Type, reply.PagePath) {
		t.Errorf("the type %s means nothing to the client of a gateway", p.Type)
	}
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	return p.Type, p.Status
}

const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

func TestForward_AllowsWithHeadersAndDeniesWithTheClientsAnswer(t *testing.T) {
	f := newFixture(t, perUser(1))
	a := f.forwarded("forward", "POST", "/users/17", "X-User", "42")
	if a.status != http.StatusOK || a.body != "" {
		t.Fatalf("got %+v", a)
	}
	for name, want := range map[string]string{"RateLimit-Policy": `"per-user";q=1;w=86400`, "X-RateLimit-Limit": "1",
		"X-RateLimit-Remaining": "0", "Retry-After": "", "X-RateLimit-Mode": "", "X-RateLimit-Status": ""} {
		if got := strings.Join(header(a, name), ","); got != want {
			t.Errorf("allowed: %s is %q, want %q", name, got, want)
		}
	}
	a = f.forwarded("forward", "POST", "/users/17", "X-User", "42")
	if a.status != http.StatusTooManyRequests || len(header(a, "Retry-After")) != 1 {
		t.Fatalf("got %+v", a)
	}
	if kind, status := problemOf(t, a); kind != quotaExceeded || status != http.StatusTooManyRequests {
		t.Errorf("problem %s %d", kind, status)
	}
	if a = f.forwarded("forward", "POST", "/users/17", "X-User", "43"); a.status != http.StatusOK {
		t.Errorf("another user got %d", a.status)
	}
	if f.count("forward", resultAllowed) != 2 || f.count("forward", resultDenied) != 1 {
		t.Errorf("counted %v", f.counts)
	}
}

// header gives the values of a header in any case.
func header(a answered, name string) (values []string) {
	for n, v := range a.header {
		if strings.EqualFold(n, name) {
			values = append(values, v...)
		}
	}
	return values
}

func TestNginx_DenialIsA403ThatSaysWhatTheClientGets(t *testing.T) {
	f := newFixture(t, perUser(1))
	if a := f.forwarded("nginx", "GET", "/", "X-User", "42"); a.status != http.StatusOK || a.body != "" {
		t.Fatalf("got %+v", a)
	}
	a := f.forwarded("nginx", "GET", "/", "X-User", "42")
	if a.status != http.StatusForbidden || !slices.Equal(header(a, "X-RateLimit-Status"), []string{"429"}) {
		t.Errorf("got %+v", a)
	}
	if kind, status := problemOf(t, a); kind != quotaExceeded || status != http.StatusTooManyRequests {
		t.Errorf("the client's problem is %s %d", kind, status)
	}
	f.store.fault = gone
	a = f.forwarded("nginx", "GET", "/", "X-User", "42")
	if a.status != http.StatusForbidden || !slices.Equal(header(a, "X-RateLimit-Status"), []string{"503"}) {
		t.Errorf("store unavailable: %+v", a)
	}
	if f.count("nginx", resultDenied) != 1 || f.count("nginx", resultUnavailable) != 1 {
		t.Errorf("counted %v", f.counts)
	}
}

// A node without a turn for a question denies it in the form of a closed fail mode, also where fail modes let pass.
func TestFaces_SendTheStatusOfTheRule(t *testing.T) {
	f := newFixture(t, []rules.Rule{rule(1, "budget", "user", 0, func(r *rules.Rule) {
		r.Denial = &rules.Denial{Status: 402}
	})})
	for _, tt := range []struct {
		face      string
		status    int
		forClient []string
	}{{"forward", 402, nil}, {"nginx", 403, []string{"402"}}, {"ext_authz", 402, nil}} {
		a := f.forwarded(tt.face, "GET", "/", "X-User", "42")
		if a.status != tt.status || !slices.Equal(header(a, "X-RateLimit-Status"), tt.forClient) {
			t.Errorf("%s: got %+v", tt.face, a)
		}
		if kind, status := problemOf(t, a); kind != quotaExceeded || status != 402 {
			t.Errorf("%s: the client's problem is %s %d", tt.face, kind, status)
		}
		if f.count(tt.face, resultDenied) != 1 {
			t.Errorf("%s: counted %v", tt.face, f.counts)
		}
	}
}

func TestFaces_AnOverloadDenies(t *testing.T) {
	f := newFixture(t, []rules.Rule{rule(1, "r", "user", 5, func(r *rules.Rule) { r.FailMode = rules.FailOpen })})
	f.store.fault = func() error { return &limiter.StoreError{Cause: limiter.CauseOverload} }
	for face, want := range map[string]int{"forward": http.StatusServiceUnavailable, "nginx": http.StatusForbidden,
		"ext_authz": http.StatusServiceUnavailable} {
		a := f.forwarded(face, "GET", "/", "X-User", "42")
		kind, status := problemOf(t, a)
		if a.status != want || status != http.StatusServiceUnavailable ||
			kind != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" {
			t.Errorf("%s: got %+v", face, a)
		}
		for name, want := range map[string]string{"Retry-After": "1", "X-RateLimit-Mode": "", "X-RateLimit-Remaining": "",
			"RateLimit": ""} {
			if got := strings.Join(header(a, name), ","); got != want {
				t.Errorf("%s: %s is %q, want %q", face, name, got, want)
			}
		}
		if face == "nginx" && !slices.Equal(header(a, "X-RateLimit-Status"), []string{"503"}) {
			t.Errorf("nginx: got %+v", a)
		}
	}
}

// What a gateway says of its time only shortens the wait for a turn: its client may have said it.
func TestFaces_ReadHowLongTheGatewayWaits(t *testing.T) {
	f := newFixture(t, perUser(100))
	for value, most := range map[string]time.Duration{"": 80 * time.Millisecond, "50": 40 * time.Millisecond,
		"1000": 80 * time.Millisecond} {
		var headers []string
		if value != "" {
			headers = []string{"Sluice-Timeout-Ms", value}
		}
		if a := f.forwarded("forward", "GET", "/", append(headers, "X-User", "42")...); a.status != http.StatusOK {
			t.Fatalf("%q: got %+v", value, a)
		}
		if b := f.store.bound; b.Turn.Sub(b.Start) > most || !b.Hard.IsZero() || b.Deadline.Sub(b.Start) < most {
			t.Errorf("%q: the store has %+v", value, b)
		}
	}
	for _, face := range []string{"forward", "nginx", "ext_authz"} {
		a := f.forwarded(face, "GET", "/", "X-User", "42", "Sluice-Timeout-Ms", "1001")
		if a.status != http.StatusBadRequest || !strings.Contains(a.body, "Sluice-Timeout-Ms") {
			t.Errorf("%s: got %+v", face, a)
		}
	}
}

// The client of a banned key gets the problem of a ban from every face.
func TestFaces_SayThatAKeyIsBanned(t *testing.T) {
	f := newFixture(t, []rules.Rule{rule(1, "r", "user", 1, func(r *rules.Rule) {
		r.WindowMS, r.Ban = 1000, &rules.Ban{After: 1, WithinMS: 1000, ForMS: 60_000}
	})})
	for _, face := range []string{"forward", "nginx", "ext_authz"} {
		user := "of " + face
		if a := f.forwarded(face, "GET", "/", "X-User", user); a.status != http.StatusOK {
			t.Fatalf("%s: got %+v", face, a)
		}
		for range 2 {
			a := f.forwarded(face, "GET", "/", "X-User", user)
			kind, status := problemOf(t, a)
			if kind != "https://iana.org/assignments/http-problem-types#abnormal-usage-detected" ||
				status != http.StatusTooManyRequests || !slices.Equal(header(a, "Retry-After"), []string{"60"}) {
				t.Errorf("%s: the client's problem is %s %d, %v", face, kind, status, a.header)
			}
		}
	}
}

func TestExtAuthz_AsksAboutTheRequestItself(t *testing.T) {
	post := "POST"
	f := newFixture(t, []rules.Rule{
		rule(1, "users", "route", 2, onRoute("/users/{id}"), func(r *rules.Rule) { r.Method = &post }),
		rule(2, "hosts", "attr:host", 3),
	})
	ask := func(path string) int {
		return f.ask("POST", "http://Shop.example:8443/ratelimit/ext_authz/shop"+path,
			"X-Forwarded-Uri", "/other", "X-Forwarded-Method", "GET").status
	}
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := ask(fmt.Sprintf("/users/%d?x=/files/%d", i, i)); got != want {
			t.Errorf("question %d got %d, want %d", i, got, want)
		}
	}
	// The host's rule has one left.
	for i, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if got := ask([]string{"", "?q"}[i]); got != want {
			t.Errorf("root %d got %d, want %d", i, got, want)
		}
	}
}

// The host is the one that the client asked for: what the gateway forwards, or for ext_authz that of the question.
func TestFaces_RulesOfHostsApplyToTheClientsHost(t *testing.T) {
	below := "*.shop.example"
	f := newFixture(t, []rules.Rule{rule(1, "below", "global", 3, func(r *rules.Rule) { r.Host = &below })})
	ask := func(url, host string) int {
		return f.ask("GET", url, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/a", "X-Forwarded-Host", host,
			"X-Forwarded-For", "203.0.113.7").status
	}
	for _, url := range []string{"http://a.internal/ratelimit/forward/shop", "http://a.internal/ratelimit/nginx/shop",
		"http://API.Shop.example:8443/ratelimit/ext_authz/shop/a"} {
		if got := ask(url, "API.Shop.example:8443"); got != http.StatusOK {
			t.Errorf("%s: got %d", url, got)
		}
	}
	for host, want := range map[string]int{
		"a.b.shop.example": http.StatusTooManyRequests, "shop.example": http.StatusOK, "": http.StatusOK,
		"not a host": http.StatusOK, "evil.example, a.shop.example": http.StatusTooManyRequests,
		"a.shop.example,evil.example": http.StatusOK,
	} {
		if got := ask("http://x.shop.example/ratelimit/forward/shop", host); got != want {
			t.Errorf("%q: got %d, want %d", host, got, want)
		}
	}
}

func TestFaces_TakeAnyMethodAndNoOptionFromTheQuery(t *testing.T) {
	f := newFixture(t, perUser(1))
	for i, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE",
		"PROPFIND", "x-odd"} {
		a := f.ask(method, "/ratelimit/forward/shop?X-User=0&profile=other&weight=0", "X-Forwarded-Method", "GET",
			"X-Forwarded-Uri", "/", "X-Forwarded-For", "203.0.113.7", "X-User", fmt.Sprint(i))
		if a.status != http.StatusOK {
			t.Errorf("%s: got %d %s", method, a.status, a.body)
		}
	}
	a := f.ask("HEAD", "/ratelimit/forward/shop", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For",
		"203.0.113.7", "X-User", "0")
	if a.status != http.StatusTooManyRequests || a.body != "" {
		t.Errorf("HEAD: got %+v", a)
	}
}

func TestFaces_PassOtherRequestsOn(t *testing.T) {
	f := newFixture(t, nil)
	for _, path := range []string{"/", "/ratelimit/check", "/ratelimit/forward", "/ratelimit/forwarded/shop",
		"/ratelimit/%66orward/shop"} {
		if a := f.ask("GET", path); a.status != http.StatusNotFound || !strings.HasPrefix(a.body, "404 page") {
			t.Errorf("%s: got %+v", path, a)
		}
	}
	if len(f.counts) > 0 {
		t.Errorf("counted %v", f.counts)
	}
}

func TestFaces_SkippedMethodsAreAllowedUnchecked(t *testing.T) {
	f := newFixture(t, perUser(0))
	for _, face := range []string{"forward", "nginx"} {
		a := f.forwarded(face, "OPTIONS", "/", "X-User", "42")
		if a.status != http.StatusOK || a.body != "" || len(header(a, "RateLimit")) > 0 || f.count(face, resultSkipped) != 1 {
			t.Errorf("%s: got %+v", face, a)
		}
	}
	if a := f.ask("OPTIONS", "/ratelimit/ext_authz/shop/", "X-User", "42"); a.status != http.StatusOK {
		t.Errorf("ext_authz: got %+v", a)
	}
}

func TestFaces_MissingFactDoesAsTheProfileSays(t *testing.T) {
	p := shop()
	f := newFixture(t, perUser(0), p)
	if a := f.forwarded("forward", "GET", "/"); a.status != http.StatusOK {
		t.Errorf("skip: got %+v", a)
	}
	p.Version, p.Missing = 2, map[string]profile.MissingFact{"user": {Action: profile.MissingDeny}}
	f.load(2, perUser(0), p)
	for face, want := range map[string]int{"forward": http.StatusForbidden, "nginx": http.StatusForbidden} {
		a := f.forwarded(face, "GET", "/")
		kind, _ := problemOf(t, a)
		if a.status != want || kind != "about:blank" || !strings.Contains(a.body, "user") {
			t.Errorf("%s: got %+v", face, a)
		}
		if got := header(a, "X-RateLimit-Status"); (face == "nginx") != slices.Equal(got, []string{"403"}) {
			t.Errorf("%s: X-RateLimit-Status %v", face, got)
		}
		if f.count(face, resultMissingFact) != 1 {
			t.Errorf("%s: counted %v", face, f.counts)
		}
	}
	p.Version, p.Missing = 3, map[string]profile.MissingFact{"user": {Value: "nobody"}}
	f.load(3, perUser(0), p)
	if a := f.forwarded("forward", "GET", "/"); a.status != http.StatusTooManyRequests {
		t.Errorf("value: got %+v", a)
	}
}

func TestFaces_EachFailModeIsNamed(t *testing.T) {
	var rs []rules.Rule
	for i, mode := range []string{rules.FailOpen, rules.FailClosed, rules.FailLocal} {
		rs = append(rs, rule(int64(i+1), mode, "user", 1, onRoute("/"+mode), func(r *rules.Rule) { r.FailMode = mode }))
	}
	f := newFixture(t, rs)
	mode := func(a answered) string { return strings.Join(header(a, "X-RateLimit-Mode"), ",") }
	if a := f.forwarded("forward", "GET", "/open", "X-User", "1"); mode(a) != "" {
		t.Errorf("the store decided, and the mode is %q", mode(a))
	}
	f.store.fault = gone
	for _, tt := range []struct {
		mode          string
		forward, face int
	}{
		{"open", http.StatusOK, http.StatusOK},
		{"closed", http.StatusServiceUnavailable, http.StatusForbidden},
		{"local", http.StatusOK, http.StatusTooManyRequests},
	} {
		if a := f.forwarded("forward", "GET", "/"+tt.mode, "X-User", "7"); a.status != tt.forward || mode(a) != tt.mode {
			t.Errorf("%s: got %d, mode %q", tt.mode, a.status, mode(a))
		}
		if tt.mode == "local" {
			tt.face = http.StatusForbidden // the second of a limit of 1
		}
		if a := f.forwarded("nginx", "GET", "/"+tt.mode, "X-User", "7"); a.status != tt.face || mode(a) != tt.mode {
			t.Errorf("nginx, %s: got %d, mode %q", tt.mode, a.status, mode(a))
		}
	}
}

func TestFaces_SendOnlyTheProfilesHeaders(t *testing.T) {
	all := []string{"Retry-After", "RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining",
		"X-RateLimit-Reset", "X-RateLimit-Mode"}
	for _, tt := range []struct {
		names []string
		want  []string
	}{
		{[]string{"Retry-After", "RateLimit-Policy", "RateLimit", "X-RateLimit-*"}, all},
		{[]string{"*"}, all},
		{[]string{}, nil},
		{[]string{"retry-after"}, []string{"Retry-After"}},
		{[]string{"RateLimit"}, []string{"RateLimit"}},
		{[]string{"RateLimit*"}, []string{"RateLimit-Policy", "RateLimit"}},
		{[]string{"x-ratelimit-r*"}, []string{"X-RateLimit-Remaining", "X-RateLimit-Reset"}},
	} {
		p := shop()
		p.Headers = tt.names
		local := rule(1, "per-user", "user", 1, func(r *rules.Rule) { r.FailMode = rules.FailLocal })
		f := newFixture(t, []rules.Rule{local}, p)
		f.store.fault = gone
		f.forwarded("nginx", "GET", "/", "X-User", "1")
		a := f.forwarded("nginx", "GET", "/", "X-User", "1")
		for _, name := range all {
			if got := len(header(a, name)) > 0; got != slices.Contains(tt.want, name) {
				t.Errorf("%q: %s sent: %v", tt.names, name, got)
			}
		}
		if a.status != http.StatusForbidden || len(header(a, "X-RateLimit-Status")) != 1 || !json.Valid([]byte(a.body)) {
			t.Errorf("%q: got %+v", tt.names, a)
		}
		names := slices.Contains(tt.want, "RateLimit") || slices.Contains(tt.want, "RateLimit-Policy")
		if strings.Contains(a.body, "violated-policies") != names {
			t.Errorf("%q: body %s", tt.names, a.body)
		}
	}
}

func TestFaces_SendDelaysAndLeases(t *testing.T) {
	f := newFixture(t, []rules.Rule{
		rule(1, "queue", "user", 1, onRoute("/queue"), func(r *rules.Rule) {
			r.Algorithm, r.WindowMS = "leaky_queue", 10_000
			burst := int64(2)
			r.Burst = &burst
		}),
		rule(2, "slots", "user", 1, onRoute("/slots"), func(r *rules.Rule) { r.Algorithm = "concurrency" }),
	})
	if a := f.forwarded("forward", "GET", "/queue", "X-User", "1"); len(header(a, "X-RateLimit-Delay-Ms")) > 0 {
		t.Errorf("the first waits: %+v", a)
	}
	a := f.forwarded("forward", "GET", "/queue", "X-User", "1")
	if a.status != http.StatusOK || !slices.Equal(header(a, "X-RateLimit-Delay-Ms"), []string{"10000"}) {
		t.Errorf("the second: %+v", a)
	}
	a = f.forwarded("forward", "GET", "/slots", "X-User", "1")
	if a.status != http.StatusOK || len(header(a, "X-RateLimit-Lease")) != 1 {
		t.Errorf("slots: %+v", a)
	}
	if a = f.forwarded("forward", "GET", "/slots", "X-User", "1"); a.status != http.StatusTooManyRequests ||
		len(header(a, "X-RateLimit-Lease")) != 0 {
		t.Errorf("slots, full: %+v", a)
	}
}

func TestFaces_DeferNothing(t *testing.T) {
	f := newFixture(t, []rules.Rule{rule(1, "later", "user", 0, func(r *rules.Rule) {
		r.OverLimit = rules.OverLimitDefer
	})})
	if a := f.forwarded("forward", "GET", "/", "X-User", "1"); a.status != http.StatusTooManyRequests {
		t.Errorf("got %+v", a)
	}
}

func TestFaces_DenialStaysUnderAKilobyte(t *testing.T) {
	var rs []rules.Rule
	for i := range 40 {
		rs = append(rs, rule(int64(i+1), fmt.Sprintf("%s%02d", strings.Repeat("n", 61), i), "user", 0))
	}
	f := newFixture(t, rs)
	for _, face := range []string{"forward", "nginx"} {
		a := f.forwarded(face, "GET", "/", "X-User", "1")
		if len(a.body) >= 1000 || !strings.Contains(a.body, "nn00") {
			t.Errorf("%s: %d bytes: %s", face, len(a.body), a.body)
		}
		problemOf(t, a)
	}
	f.store.fault = gone
	if a := f.forwarded("forward", "GET", "/", "X-User", "1"); len(a.body) >= 1000 {
		t.Errorf("%d bytes: %s", len(a.body), a.body)
	}
	quotes := strings.Repeat(`"`, rules.MaxMessage) // twice as long in JSON
	rs = rs[:2]
	for i := range rs {
		rs[i].Limit, rs[i].Message = 1, &quotes
		rs[i].Ban = &rules.Ban{After: 1, WithinMS: 1000, ForMS: limiter.MaxWindow}
	}
	f = newFixture(t, rs)
	f.forwarded("forward", "GET", "/", "X-User", "1")
	a := f.forwarded("forward", "GET", "/", "X-User", "1")
	if len(a.body) >= 1000 || a.status != http.StatusTooManyRequests {
		t.Errorf("%d, %d bytes: %s", a.status, len(a.body), a.body)
	}
}

func TestFaces_WeightComesFromTheProfilesHeader(t *testing.T) {
	p := shop()
	p.Weight = &profile.WeightSource{Header: "X-Weight"}
	f := newFixture(t, perUser(10), p)
	for _, tt := range []struct {
		weight string
		want   int
	}{{"7", http.StatusOK}, {"4", http.StatusTooManyRequests}, {"3", http.StatusOK}, {"0", http.StatusOK},
		{"", http.StatusTooManyRequests}, {"-1", http.StatusBadRequest}, {"1e3", http.StatusBadRequest}} {
		for _, face := range []string{"forward", "nginx"}[:1] {
			if a := f.forwarded(face, "GET", "/", "X-User", "1", "X-Weight", tt.weight); a.status != tt.want {
				t.Errorf("%s, weight %q: got %d, want %d", face, tt.weight, a.status, tt.want)
			}
		}
	}
	if a := f.forwarded("nginx", "GET", "/", "X-Weight", "x"); a.status != http.StatusBadRequest ||
		!strings.Contains(a.body, "X-Weight") || f.count("nginx", resultBadHeader) != 1 {
		t.Errorf("nginx: got %+v", a)
	}
	if a := f.forwarded("nginx", "GET", "/", "X-Weight", "5", "Sluice-Token", ""); a.status != http.StatusBadRequest ||
		f.count("nginx", resultNoProof) != 1 {
		t.Errorf("without proof: got %+v", a)
	}
}

func TestFaces_FollowTheProfileInForce(t *testing.T) {
	p := shop()
	f := newFixture(t, perUser(1), p)
	f.forwarded("forward", "GET", "/", "X-User", "1")
	p.Version, p.Facts.User = 2, []profile.Source{{Header: "X-Account"}}
	f.load(2, perUser(1), p)
	if a := f.forwarded("forward", "GET", "/", "X-User", "1", "X-Account", "2"); a.status != http.StatusOK {
		t.Errorf("got %d", a.status)
	}
	f.load(3, perUser(1), profile.Profile{Name: "other", Proof: profile.Proof{Token: true}})
	if a := f.forwarded("forward", "GET", "/"); a.status != http.StatusNotFound {
		t.Errorf("a deleted profile got %d", a.status)
	}
	f.ask("GET", "/ratelimit/ext_authz/other/")
	if got := len(*f.handler.compiled.Load()); got != 1 {
		t.Errorf("%d profiles are kept", got)
	}
}

func TestFaces_RecoverFromPanics(t *testing.T) {
	f := newFixture(t, perUser(1))
	f.store.fault = func() error { panic("boom") }
	a := f.forwarded("forward", "GET", "/", "X-User", "1")
	if kind, _ := problemOf(t, a); a.status != http.StatusInternalServerError || kind != "about:blank" ||
		strings.Contains(a.body, "boom") {
		t.Errorf("got %+v", a)
	}
	if f.panicked.Load() != 1 || f.count("forward", resultError) != 1 || !strings.Contains(f.logged.String(), "boom") {
		t.Errorf("panics %d, counted %v, log %s", f.panicked.Load(), f.counts, f.logged.String())
	}
	f.store.fault = nil
	if a := f.forwarded("forward", "GET", "/", "X-User", "1"); a.status != http.StatusOK {
		t.Errorf("afterwards got %d", a.status)
	}
}

// The client that a pool sheds gets 503 from every face, within its own limit.
func TestFaces_SayThatAPoolSheds(t *testing.T) {
	f := newFixture(t, nil)
	pool, low := rules.NewPool(), "low"
	pool.Name, pool.Limit, pool.WindowMS, pool.LowPercent, pool.Shed = "shop", 2, 60_000, 50, true
	set, err := match.CompileSource(rules.Source{Version: 2, Pools: []rules.Pool{pool},
		Profiles: []profile.Profile{shop()},
		Rules:    []rules.Rule{rule(1, "r", "user", 100, func(r *rules.Rule) { r.Pool, r.Priority = &pool.Name, &low })},
	}, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f.sets.Store(set)
	if a := f.forwarded("forward", "GET", "/", "X-User", "42"); a.status != http.StatusOK {
		t.Fatalf("got %+v", a)
	}
	for face, want := range map[string]int{"forward": 503, "nginx": 403, "ext_authz": 503} {
		a := f.forwarded(face, "GET", "/", "X-User", "43")
		kind, status := problemOf(t, a)
		if a.status != want || status != http.StatusServiceUnavailable || len(header(a, "Retry-After")) != 1 ||
			kind != "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity" {
			t.Errorf("%s: got %+v", face, a)
		}
		if got := header(a, "X-RateLimit-Status"); face == "nginx" && !slices.Equal(got, []string{"503"}) {
			t.Errorf("nginx: the client's status is %v", got)
		}
		if got := f.count(face, resultUnavailable); got != 1 {
			t.Errorf("%s: counted %v", face, f.counts)
		}
	}
}

// Without names of limits a body is JSON in every dialect.
func TestFaces_DialectsWithoutNames(t *testing.T) {
	for _, dialect := range []string{profile.DialectNone, profile.DialectOpenAI, profile.DialectAnthropic,
		profile.DialectMCP} {
		for _, names := range []bool{false, true} {
			p := shop()
			p.Dialect = dialect
			if p.Headers = []string{"Retry-After"}; names {
				p.Headers = append(p.Headers, "RateLimit")
			}
			f := newFixture(t, perUser(0), p)
			a := f.forwarded("forward", "GET", "/", "X-User", "1")
			var body map[string]any
			if err := json.Unmarshal([]byte(a.body), &body); err != nil || body["error"] == nil || body["message"] == "" {
				t.Errorf("%s: body %s, %v", dialect, a.body, err)
			}
			if _, has := body["violated-policies"]; has != names {
				t.Errorf("%s: body %s with names: %t", dialect, a.body, names)
			}
		}
	}
}
