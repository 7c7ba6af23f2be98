package inspect_test

import (
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web/webtest"
)

const key43 = "/console/keys?rule=charges-per-user&key=user%3A43"

var form43 = url.Values{"rule": {"charges-per-user"}, "key": {"user:43"}}

func TestKey_IsResetAndThatIsNoted(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	if err := w.Spend(&match.Descriptor{Method: "POST", Route: "/v1/charges", User: "43",
		IP: netip.MustParseAddr("203.0.113.7")}, 100); err != nil {
		t.Fatal(err)
	}
	b := w.As(access.RoleEditor)
	if page := b.Get(key43); !page.Has("0 of 100", ">denied<") {
		t.Error("a full bucket is not told")
	}
	w.Counters.Err = &limiter.StoreError{Cause: limiter.CauseTimeout, Err: http.ErrHandlerTimeout}
	if page := b.Post("/console/keys/reset", form43); page.Code != http.StatusServiceUnavailable ||
		len(w.Counters.Notes) != 0 {
		t.Errorf("a reset that failed: %d, %q", page.Code, w.Counters.Notes)
	}
	if page := b.Get(key43); !page.Has("Remaining quota is unavailable") {
		t.Error("counters that are away are not told")
	}
	w.Counters.Err = nil
	if page := b.Post("/console/keys/reset", form43); page.Code != http.StatusSeeOther || len(w.Counters.Notes) != 1 ||
		w.Counters.Notes[0] != "edda charges-per-user user:43" {
		t.Fatalf("%d, %q", page.Code, w.Counters.Notes)
	}
	if page := b.Get(key43); !page.Has("100 of 100", ">allowed<") {
		t.Error("the bucket is not empty")
	}
}

func TestKey_SaysHowMuchIsUsedAboveTheLimit(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	if err := w.Spend(&match.Descriptor{Method: "POST", Route: "/v1/charges", User: "43",
		IP: netip.MustParseAddr("203.0.113.7")}, 125); err != nil {
		t.Fatal(err)
	}
	b := w.As(access.RoleViewer)
	if page := b.Get(key43); !page.Has("0 of 100", "<dt>Used</dt>", ">125%<", `aria-label="125% in use"`) {
		t.Error("the key's page does not say what is used")
	}
	page := b.Post("/console/explain", url.Values{"method": {"POST"}, "route": {"/v1/charges"}, "user": {"43"}})
	if !page.Has(`<span class="sub">125 used</span>`) {
		t.Error("explain does not say what is used")
	}
}

// A limit that spans regions is a part of the rule's while a region is cut off, and the page says why.
func TestKey_SaysThatARegionIsCutOff(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	w.Node.CutOff = []string{"asia"}
	shows := func(name string, want, not string) {
		t.Helper()
		page := b.Get(key43)
		if page.Code != http.StatusOK || !page.Has(want) || not != "" && page.Has(not) {
			t.Errorf("%s: %d, want %q and not %q", name, page.Code, want, not)
		}
	}
	const cut = "Cut off from asia. Meanwhile this region may spend "
	for i := range w.Rules.List {
		r := &w.Rules.List[i]
		if r.Name != "charges-per-user" {
			continue
		}
		shows("a limit of one region", "Remaining", cut)
		for cutOff, want := range map[string]string{"": "an equal part of the limit, and regions",
			rules.CutOffAlone: "the whole limit.", rules.CutOffClosed: "nothing."} {
			if r.Span, r.CutOff = rules.SpanGlobal, nil; cutOff != "" {
				r.CutOff = &cutOff
			}
			if err := w.Compile(); err != nil {
				t.Fatal(err)
			}
			shows("cut_off "+cutOff, cut+want, "")
		}
		w.Node.CutOff = nil
		shows("after the heal", "Remaining", cut)
	}
}

// A key whose limit spans regions says what each has spent; one that is of this region alone does not.
func TestKey_SaysWhatEachRegionHasSpent(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if page := b.Get(key43); page.Code != http.StatusOK || page.Has("Spent by region") {
		t.Errorf("a limit of one region: %d", page.Code)
	}
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Name == "charges-per-user" {
			r.Span = rules.SpanGlobal
		}
	}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	if page := b.Get(key43); !page.Has("Spent by region", "eu 412, us 96") {
		t.Errorf("a limit that spans regions:\n%s", page.Body)
	}
}

func TestKey_ShowsABanAndLiftsIt(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Name == "charges-per-user" {
			r.Ban = &rules.Ban{After: 2, WithinMS: 60_000, ForMS: 600_000}
		}
	}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	who := &match.Descriptor{Method: "POST", Route: "/v1/charges", User: "43", IP: netip.MustParseAddr("203.0.113.7")}
	if err := w.Spend(who, 100); err != nil {
		t.Fatal(err)
	}
	b := w.As(access.RoleEditor)
	if page := b.Get(key43); !page.Has("none; 2 more denials would begin one") || page.Has("Lift ban") {
		t.Error("the page does not say that there is no ban")
	}
	m := w.Sets.Load().Named("charges-per-user")
	for range 2 {
		bucket, err := w.Sets.Load().FindBucket(m, "user:43", webtest.Now)
		if err != nil {
			t.Fatal(err)
		}
		req := limiter.Request{Asks: []limiter.Ask{{Key: bucket.Key, Limit: bucket.Limit, Weight: 1},
			{Key: limiter.BanKey(bucket.Key), Limit: *m.Ban}}}
		var res limiter.Result
		if err := w.Guard.Do(t.Context(), &req, &res); err != nil || res.Allowed {
			t.Fatalf("%v, allowed %v", err, res.Allowed)
		}
	}
	if page := b.Get(key43); !page.Has("banned", "ends in 10 min", "Lift ban", "0 of 100") {
		t.Errorf("the ban is not shown\n%s", page.Body)
	}
	if page := w.As(access.RoleViewer).Get(key43); !page.Has("ends in 10 min") || page.Has("Lift ban") {
		t.Error("a viewer may lift the ban")
	}
	if page := b.Post("/console/keys/unban", form43); page.Code != http.StatusSeeOther || len(w.Counters.Notes) != 1 ||
		w.Counters.Notes[0] != "edda charges-per-user user:43 ban" {
		t.Fatalf("%d, %q", page.Code, w.Counters.Notes)
	}
	if page := b.Get(key43); !page.Has("none; 2 more denials", "0 of 100", "The ban has ended.") {
		t.Error("the ban did not end, or the usage was reset")
	}
	for i := range w.Rules.List {
		w.Rules.List[i].Ban = nil
	}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	if page := b.Post("/console/keys/unban", form43); page.Code != http.StatusConflict || len(w.Counters.Notes) != 1 {
		t.Errorf("without a ban: %d", page.Code)
	}
}

func TestKey_IsBlockedAndLifted(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := url.Values{"rule": form43["rule"], "key": form43["key"], "does": {"blocked"}, "hours": {"24"},
		"reason": {"card testing"}}
	if page := b.Post("/console/keys/override", form); page.Code != http.StatusSeeOther {
		t.Fatalf("%d", page.Code)
	}
	if o := w.Overrides.List[len(w.Overrides.List)-1]; o.ExpiresAt == nil ||
		!o.ExpiresAt.Equal(webtest.Now.Add(24*time.Hour)) {
		t.Errorf("blocked for a day, until %v", o.ExpiresAt)
	}
	if page := b.Get(key43); !page.Has("card testing", "blocked", "Delete override", "blocked, limit 0",
		`aria-label="limit 0"`) ||
		page.Has(`aria-label="100% in use"`) || page.Has("0 of 0") {
		t.Error("the block is not in force")
	}
	w.Overrides.Err = rules.ErrUnavailable
	if page := b.Get(key43); !page.Has("An override is in force for this key") || page.Has("Custom limit") {
		t.Error("an override that cannot be read is shown as none")
	}
	w.Overrides.Err = nil
	if page := b.Post("/console/keys/override", form); page.Code != http.StatusConflict {
		t.Errorf("twice: %d", page.Code)
	}
	form = url.Values{"rule": form43["rule"], "key": {"user:44"}, "does": {"blocked"}, "limit": {"12"},
		"reason": {"card testing"}}
	if page := b.Post("/console/keys/override", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("applies only to a custom limit", `value="12"`) {
		t.Errorf("a limit for nobody: %d", page.Code)
	}
	form = url.Values{"rule": form43["rule"], "key": {"user:44"}, "does": {"limit"}, "reason": {"card testing"}}
	if page := b.Post("/console/keys/override", form); page.Code != http.StatusUnprocessableEntity ||
		!page.Has("whole number", "card testing") {
		t.Errorf("no limit: %d", page.Code)
	}
}

func TestKey_ThatIsACredentialIsHashedInTheAddress(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleViewer)
	page := b.Post("/console/keys", url.Values{"rule": {"exports-at-a-time"}, "key": {"sk_live_secret"}})
	to := page.Header.Get("Location")
	if page.Code != http.StatusSeeOther || to == "" || len(to) < 80 {
		t.Fatalf("%d %s", page.Code, to)
	}
	if page := b.Get(to); page.Code != http.StatusOK || page.Has("sk_live") || !page.Has("of 2") {
		t.Errorf("%d", page.Code)
	}
	if page := b.Get("/console/keys?rule=no-such&key=x"); page.Code != http.StatusUnprocessableEntity {
		t.Errorf("no such rule: %d", page.Code)
	}
}

// TestKey_DuringAnOutageNoDenialIsDenied: what this node denied is shown, and what cannot
// be read is not shown as none.
func TestKey_DuringAnOutageNoDenialIsDenied(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	w.Fleet.Err = &history.OwnError{Since: webtest.Now, Err: http.ErrHandlerTimeout}
	const path = "/console/keys?rule=charges-per-user&key=user%3A42"
	if page := b.Get(path); !page.Has("requests of this node", "unknown since", "POST /v1/charges") ||
		page.Has("No recent requests") {
		t.Error("what this node denied is not shown")
	}
	w.Fleet.Err = http.ErrHandlerTimeout
	if page := b.Get(path); !page.Has("Recent requests are unavailable") || page.Has("No recent requests") {
		t.Error("what cannot be read is shown as none")
	}
}

// The page of an address shows the network whose override applies, and offers an override of the address alone.
func TestKey_ShowsTheOverrideOfItsNetwork(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Post("/console/rules/3/overrides", url.Values{"key": {"ip:10.0.0.0/8"}, "kind": {"blocked"},
		"reason": {"listed on Monday"}})
	if page.Code != http.StatusSeeOther {
		t.Fatalf("%d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/rules/3/overrides?q=10.9.9.9"); !page.Has("ip:10.0.0.0/8", "listed on Monday") {
		t.Error("a search for an address does not find its network")
	}
	const key = "/console/keys?rule=logins-per-address&key=ip%3A10.9.9.9"
	if page := b.Get(key); !page.Has("<code>ip:10.0.0.0/8</code>", "listed on Monday", "This key is blocked",
		"Save override") || page.Has("Delete override") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	form := url.Values{"rule": {"logins-per-address"}, "key": {"ip:10.9.9.9"}, "does": {"unlimited"}, "hours": {"1"}}
	if page := b.Post("/console/keys/override", form); page.Code != http.StatusSeeOther {
		t.Fatalf("%d", page.Code)
	}
	if page := b.Get(key); !page.Has("<code>ip:10.9.9.9</code>", "Delete override") || page.Has("listed on Monday") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/keys?rule=logins-per-address&key=ip%3A10.0.0.0%2F8"); page.Code != 422 ||
		!page.Has("must name one bucket") {
		t.Errorf("a network is shown as one key: %d", page.Code)
	}
}

func TestKey_SaysThatItsPoolMayShed(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b, pool := w.As(access.RoleViewer), "shop"
	for i := range w.Rules.List {
		if w.Rules.List[i].Name == "charges-per-user" {
			w.Rules.List[i].Pool = &pool
		}
	}
	for _, shed := range []bool{false, true} {
		w.Pools.List[0].Shed = shed
		if err := w.Compile(); err != nil {
			t.Fatal(err)
		}
		page := b.Get("/console/keys?rule=charges-per-user&key=user%3A44")
		if page.Has("while the pool shop has room") != shed {
			t.Errorf("sheds %v: %d\n%s", shed, page.Code, page.Body)
		}
	}
}

// A key whose home region does not decide says so, and says nothing about the Redis of this region.
func TestKey_SaysThatItsHomeDoesNotDecide(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	exactly(t, w)
	b := w.As(access.RoleEditor)
	if page := b.Get(key43); page.Code != http.StatusOK || !page.Has("Home region", "Its Redis decides this key") {
		t.Errorf("the home answers: %d\n%s", page.Code, page.Body)
	}
	if page := b.Get(key42 + "0"); page.Code != http.StatusOK || page.Has("Home region") {
		t.Errorf("a key that each region has: %d\n%s", page.Code, page.Body)
	}
	w.Counters.Err = &limiter.StoreError{Cause: limiter.CauseHome, Err: errors.New("the home region us is cut off")}
	if page := b.Get(key43); page.Code != http.StatusOK || !page.Has("the home region of this key, us, does not answer") ||
		page.Has("Redis is unreachable") {
		t.Errorf("the page of the key: %d\n%s", page.Code, page.Body)
	}
}

// exactly lets the home region of each key decide charges-per-user.
func exactly(t *testing.T, w *webtest.World) {
	t.Helper()
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Name == "charges-per-user" {
			r.Span = rules.SpanGlobalExact
		}
	}
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
}
