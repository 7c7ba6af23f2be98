package webtest

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
)

// Shown is a page of the gallery: the request, the role, and the world.
type Shown struct {
	// Name is the name of the file, About the title.
	Name, About string
	Kind        Kind
	Role        access.Role
	Path        string
	// Form, if not nil, is posted.
	Form url.Values
	// Prepare changes the world before the request.
	Prepare func(*World)
	// Later is how long after signing in the page is requested.
	Later time.Duration
}

// Gallery lists every page in every relevant state. Add new pages here: the gallery, the screenshots and the checks of
// web/browsertest use this list, and TestGallery_HasEveryPage fails if a page is missing.
func Gallery() []Shown {
	others := slices.Concat(adminPages(), undoPages(), keptPages(), descriptorPages(), trafficPages(), incidentPages())
	return slices.Concat(others, []Shown{
		{Name: "sign-in", About: "Sign in", Path: "/console/sign-in"},
		{Name: "sign-in-wrong", About: "Sign in, wrong password", Path: "/console/sign-in",
			Form: url.Values{"name": {"ada"}, "password": {"guess"}}},
		{Name: "sign-in-nobody", About: "Sign in, no account yet", Kind: Fresh, Path: "/console/sign-in"},
		{Name: "sign-in-elsewhere", About: "Sign in, with single sign-on", Kind: SignOn, Path: "/console/sign-in"},
		{Name: "sso-over", About: "Single sign-on, expired", Kind: SignOn, Path: "/console/sso/callback?code=x&state=y"},
		{Name: "sso-no-role", About: "Single sign-on, no role", Kind: SignOn, Path: "$ARRIVE", Prepare: strangerArrives},
		{Name: "sso-confirm", About: "Confirm with single sign-on", Kind: SignOn, Role: access.RoleAdmin,
			Path: "/console/people/2/sign-out", Form: url.Values{}},
		{Name: "welcome", About: "First account", Kind: Fresh, Path: "/console/welcome?token=$WELCOME"},
		{Name: "welcome-errors", About: "First account, invalid", Kind: Fresh, Path: "/console/welcome",
			Form: url.Values{"token": {"$WELCOME"}, "name": {"ada"}, "password": {"short"}}},
		{Name: "welcome-used", About: "First account, expired link", Path: "/console/welcome?token=no"},
		{Name: "overview", About: "Overview", Role: access.RoleAdmin, Path: "/console"},
		{Name: "overview-fleet", About: "Overview of three nodes", Role: access.RoleEditor, Path: "/console",
			Prepare: threeNodes},
		{Name: "overview-unusual", About: "Overview, a flood, a wrong edit and an outage", Role: access.RoleEditor,
			Path: "/console", Prepare: Unusual},
		{Name: "overview-unusual-viewer", About: "Overview, the same for a viewer", Role: access.RoleViewer,
			Path: "/console", Prepare: Unusual},
		{Name: "rule-risen", About: "A rule that denies more since an edit", Role: access.RoleEditor,
			Path: "/console/rules/2", Prepare: WrongEdit},
		{Name: "override-filled", About: "New override, filled in", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/new?key=user%3Aflood-9&kind=limit&limit=200&for=1h"},
		{Name: "override-again", About: "New override of a key that has one", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/new?key=user%3A42&kind=blocked"},
		{Name: "overview-begin", About: "Overview, the checklist of an administrator", Kind: Empty, Role: access.RoleAdmin,
			Path: "/console"},
		{Name: "overview-empty", About: "Overview without rules", Kind: Empty, Role: access.RoleViewer, Path: "/console"},
		{Name: "overview-failing", About: "Overview, Redis and database unreachable", Kind: Failing, Role: access.RoleAdmin,
			Path: "/console"},
		{Name: "rules", About: "Rules", Role: access.RoleEditor, Path: "/console/rules"},
		{Name: "rules-many", About: "Rules, page 3 of 10,000", Role: access.RoleEditor, Path: "/console/rules?page=3",
			Prepare: func(w *World) { w.Rules.List = ManyRules(10_000) }},
		{Name: "rules-denied", About: "Rules, the most denied first, 10,000", Role: access.RoleEditor,
			Path:    "/console/rules?sort=denied",
			Prepare: func(w *World) { w.Rules.List = append(SampleRules(), ManyRules(10_000)[12:]...) }},
		{Name: "rules-owners", About: "Rules by owner", Role: access.RoleEditor, Path: "/console/rules?group=owner"},
		{Name: "rules-matching", About: "Rules of a request", Role: access.RoleViewer,
			Path: "/console/rules?q=POST+/v1/charges"},
		{Name: "rules-search", About: "Rules, no match", Role: access.RoleViewer, Path: "/console/rules?q=nothing-like-it"},
		{Name: "rules-empty", About: "No rules yet", Kind: Empty, Role: access.RoleEditor, Path: "/console/rules"},
		{Name: "rule-new", About: "New rule", Role: access.RoleEditor, Path: "/console/rules/new?template=payments-per-user"},
		{Name: "rule-edit", About: "Edit a rule", Role: access.RoleEditor, Path: "/console/rules/2/edit"},
		{Name: "rule-errors", About: "New rule, invalid", Role: access.RoleEditor, Path: "/console/rules",
			Form: url.Values{"name": {"No Good"}, "scope": {"user+"}, "limit": {"many"}, "window_ms": {"1"},
				"window_ms.unit": {"minute"}, "tiers[0].name": {"free"}, "schedule.windows[0].from": {"25:00"}}},
		{Name: "rule-everything", About: "Edit a rule with all settings", Role: access.RoleEditor,
			Path: "/console/rules/2/edit", Prepare: everything},
		{Name: "rule-yaml", About: "New rule as YAML", Role: access.RoleEditor, Path: "/console/rules/preview",
			Form: url.Values{"do": {"yaml"}, "name": {"charges-per-user"}, "scope": {"user"}, "limit": {"100"},
				"window_ms": {"1"}, "window_ms.unit": {"minute"}, "is_active": {"on"}}},
		{Name: "rule-conflict", About: "Edit a rule, conflict", Role: access.RoleEditor, Path: "/console/rules/1",
			Form: url.Values{"version": {"1"}, "name": {"charges-per-user"}, "method": {"POST"}, "route": {"/v1/charges"},
				"fail_mode": {"closed"}, "is_active": {"on"}, "description": {"Protects the card processor."}, "scope": {"user"},
				"limit": {"90"}, "window_ms": {"1"}, "window_ms.unit": {"minute"}}, Prepare: editMeanwhile},
		{Name: "rule", About: "Rule", Role: access.RoleEditor, Path: "/console/rules/1"},
		{Name: "rule-shadow", About: "Shadow rule, one week", Role: access.RoleEditor,
			Path: "/console/rules/7?range=7d&compare=previous"},
		{Name: "rule-findings", About: "Rule with findings", Role: access.RoleEditor, Path: "/console/rules/1",
			Prepare: func(w *World) {
				w.Rules.List[0].UpdatedAt = Now.Add(-2 * history.Day)
				w.Stats.Last.Denied = 100_000_000
			}},
		{Name: "rule-quiet", About: "Rule without data", Role: access.RoleViewer, Path: "/console/rules/11",
			Prepare: func(w *World) { w.Stats.Quiet = true }},
		{Name: "rule-statement", About: "Rule with a statement", Role: access.RoleViewer, Path: "/console/rules/1",
			Prepare: func(w *World) { Keep(w, false) }},
		{Name: "key-statement", About: "Key of a meter", Role: access.RoleViewer,
			Path: "/console/keys?rule=charges-per-user&key=user%3A43", Prepare: func(w *World) { Keep(w, true) }},
		{Name: "rule-failing", About: "Rule, metrics unavailable", Kind: Failing, Role: access.RoleEditor,
			Path: "/console/rules/4", Prepare: func(w *World) { w.Figures.Err, w.Stats.Err = errAway, errAway }},
		{Name: "rule-promote", About: "Promote a shadow rule", Role: access.RoleEditor,
			Path: "/console/rules/7/turn?to=promote"},
		{Name: "rule-promote-candidate", About: "Promote a candidate, too little evidence", Role: access.RoleEditor,
			Path: "/console/rules/1/promote", Form: url.Values{"version": {"1"}, "reason": {"The sale begins."}},
			Prepare: tryCandidate},
		{Name: "rule-off", About: "Disable a rule", Role: access.RoleEditor, Path: "/console/rules/1/turn?to=off"},
		{Name: "rule-rollback", About: "Roll back a rule", Role: access.RoleEditor, Path: "/console/rules/4/rollback?to=2"},
		{Name: "rule-stale", About: "Disable a rule, conflict", Role: access.RoleEditor, Path: "/console/rules/4/state",
			Form: url.Values{"to": {"off"}, "version": {"3"}}},
		{Name: "denials", About: "Recent denials", Role: access.RoleViewer, Path: "/console/denials"},
		{Name: "requests", About: "Sampled requests", Role: access.RoleViewer, Path: "/console/requests"},
		{Name: "requests-moment", About: "Sampled requests, a moment", Role: access.RoleViewer,
			Path: "/console/requests?from=2020-01-01T00:00:00Z&to=2020-01-01T00:00:10Z"},
		{Name: "request", About: "A denied request and the rules of its time", Role: access.RoleViewer,
			Path: "/console/requests/2", Prepare: editedSince},
		{Name: "request-allowed", About: "An allowed request", Role: access.RoleViewer, Path: "/console/requests/a0"},
		{Name: "request-hostile", About: "A request with hostile text", Role: access.RoleViewer,
			Path: "/console/requests/s5"},
		{Name: "request-gone", About: "A request that is no longer stored", Role: access.RoleViewer,
			Path: "/console/requests/long-gone"},
		{Name: "denials-search", About: "Denials, no match", Role: access.RoleViewer,
			Path: "/console/denials?key=nobody&since=5m"},
		{Name: "denials-empty", About: "No denials yet", Kind: Empty, Role: access.RoleViewer, Path: "/console/denials"},
		{Name: "search", About: "Search for everything", Role: access.RoleEditor, Path: "/console/search"},
		{Name: "search-found", About: "Search, results", Role: access.RoleEditor, Path: "/console/search",
			Form: url.Values{"q": {"user"}}},
		{Name: "search-key", About: "Search, a key", Role: access.RoleEditor, Path: "/console/search",
			Form: url.Values{"q": {"user:42"}}},
		{Name: "search-typed", About: "Search, a typed action", Role: access.RoleEditor, Path: "/console/search",
			Form: url.Values{"q": {"block user:43"}}},
		{Name: "search-none", About: "Search, nothing found", Role: access.RoleViewer, Path: "/console/search",
			Form: url.Values{"q": {"zzz"}}},
		{Name: "deferred", About: "Deferred requests", Role: access.RoleEditor, Path: "/console/deferred",
			Prepare: func(w *World) { w.Deferrals.List = SampleDeferrals() }},
		{Name: "deferred-none", About: "No deferred requests", Role: access.RoleViewer, Path: "/console/deferred"},
		{Name: "explain", About: "Explain a request", Role: access.RoleViewer, Path: "/console/explain"},
		{Name: "explain-denial", About: "Explain a denial", Role: access.RoleEditor, Path: "/console/explain?denial=2",
			Prepare: spendSome},
		{Name: "explain-errors", About: "Explain, invalid request", Role: access.RoleViewer, Path: "/console/explain",
			Form: url.Values{"ip": {"nowhere"}, "route": {"v1"}, "weight": {"-1"}, "attributes": {"tenant"},
				"fields": {"bytes=many"}}},
		{Name: "overrides", About: "Overrides of a rule", Role: access.RoleEditor, Path: "/console/rules/1/overrides"},
		{Name: "override-new", About: "New override", Role: access.RoleEditor, Path: "/console/rules/1/overrides/new"},
		{Name: "override-edit", About: "Edit an override", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/2/edit"},
		{Name: "overrides-import-new", About: "Import overrides", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/import"},
		{Name: "pool-new", About: "New pool", Role: access.RoleEditor, Path: "/console/pools/new"},
		{Name: "override-errors", About: "New override, invalid", Role: access.RoleEditor, Path: "/console/rules/1/overrides",
			Form: url.Values{"key": {"ip:1"}, "kind": {"limit"}, "limit": {"many"}}},
		{Name: "overrides-import", About: "Import overrides, plan", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/import",
			Form: url.Values{"do": {"plan"}, "csv": {"key,limit,reason\nuser:77,500,contract\n"}}},
		{Name: "overrides-csv", About: "Import overrides, errors", Role: access.RoleEditor,
			Path: "/console/rules/1/overrides/import"},
		{Name: "pools", About: "Pools", Role: access.RoleEditor, Path: "/console/pools"},
		{Name: "pools-empty", About: "No pools", Kind: Empty, Role: access.RoleEditor, Path: "/console/pools"},
		{Name: "pool-edit", About: "Edit a pool", Role: access.RoleEditor, Path: "/console/pools/shop/edit"},
		{Name: "profiles", About: "Profiles", Role: access.RoleEditor, Path: "/console/profiles"},
		{Name: "profiles-empty", About: "No profiles", Kind: Empty, Role: access.RoleEditor, Path: "/console/profiles"},
		{Name: "profile", About: "Profile", Role: access.RoleEditor, Path: "/console/profiles/shop"},
		{Name: "profile-long", About: "Profile, 100 routes and long names", Role: access.RoleViewer,
			Path: "/console/profiles/" + longName, Prepare: addLongProfile},
		{Name: "profiles-long", About: "Profiles, long names", Role: access.RoleViewer, Path: "/console/profiles",
			Prepare: addLongProfile},
		{Name: "profile-new", About: "New profile", Role: access.RoleEditor, Path: "/console/profiles/new"},
		{Name: "profile-edit", About: "Edit a profile", Role: access.RoleEditor, Path: "/console/profiles/shop/edit"},
		{Name: "profile-preset", About: "New profile, filled in for Envoy", Role: access.RoleEditor,
			Path: "/console/profiles/new?for=envoy"},
		{Name: "connect", About: "Connect a gateway", Role: access.RoleAdmin, Path: "/console/connect"},
		{Name: "connect-first", About: "Connect a gateway, the first token", Kind: Empty, Role: access.RoleAdmin,
			Path: "/console/connect?gateway=haproxy"},
		{Name: "connect-envoy", About: "Connect Envoy", Role: access.RoleAdmin, Path: "/console/connect?gateway=envoy"},
		{Name: "connect-program", About: "Connect a program", Role: access.RoleAdmin,
			Path: "/console/connect?gateway=program"},
		{Name: "connect-viewer", About: "Connect a gateway, as a viewer", Role: access.RoleViewer,
			Path: "/console/connect?gateway=traefik"},
		{Name: "connect-errors", About: "Connect a gateway, invalid", Role: access.RoleAdmin, Path: "/console/connect",
			Form: url.Values{"gateway": {"envoy"}, "name": {"No Good"}, "header": {"X User"}, "sluice": {"8080"},
				"from": {"nowhere"}, "days": {"0"}}},
		{Name: "connected", About: "Connected a gateway, secret", Role: access.RoleAdmin, Path: "/console/connect",
			Form: url.Values{"gateway": {"nginx"}, "name": {"edge-2"}, "days": {"0"}}},
		{Name: "profile-waiting", About: "Profile, waiting for the first request", Role: access.RoleAdmin,
			Path: "/console/profiles/edge", Prepare: addGateway},
		{Name: "profile-asked", About: "Profile, its gateway asks", Role: access.RoleEditor,
			Path: "/console/profiles/edge", Prepare: func(w *World) {
				addGateway(w)
				w.Gateways.Ask("edge", Now.Add(-3*time.Minute))
			}},
		{Name: "hot-keys", About: "Hot keys", Role: access.RoleViewer, Path: "/console/hot-keys", Prepare: HeatUp},
		{Name: "nodes", About: "Nodes", Role: access.RoleViewer, Path: "/console/nodes"},
		{Name: "nodes-failing", About: "Nodes, Redis unreachable", Kind: Failing, Role: access.RoleViewer,
			Path: "/console/nodes"},
		{Name: "overrides-all", About: "Overrides of all rules", Role: access.RoleEditor, Path: "/console/overrides"},
		{Name: "overrides-none", About: "No overrides", Kind: Empty, Role: access.RoleViewer, Path: "/console/overrides"},
		{Name: "regions", About: "Regions", Role: access.RoleViewer, Path: "/console/regions"},
		{Name: "replica", About: "Rules, at a read replica", Kind: Replica, Role: access.RoleAdmin, Path: "/console/rules"},
		{Name: "replica-refused", About: "503: a change, at a read replica", Kind: Replica, Role: access.RoleAdmin,
			Path: "/console/rules/1/delete", Form: url.Values{}},
		{Name: "replica-form", About: "503: a form, at a read replica", Kind: Replica, Role: access.RoleAdmin,
			Path: "/console/rules/1/edit"},
		{Name: "replica-typed", About: "503: a form that was filled in, at a read replica", Kind: Replica,
			Role: access.RoleAdmin, Path: "/console/rules/1", Form: url.Values{"name": {"charges-per-user"}, "limit": {"250"},
				"description": {"Twice as much, for the sale.\nBack to 100 on Monday."}, "version": {"1"}}},
		{Name: "replica-sign-in", About: "503: sign in, at a read replica", Kind: Replica, Path: "/console/sign-in"},
		{Name: "regions-none", About: "No regions", Kind: Empty, Role: access.RoleViewer, Path: "/console/regions"},
		{Name: "fail-modes", About: "Fail modes", Role: access.RoleEditor, Path: "/console/fail-modes"},
		{Name: "fail-modes-failing", About: "Fail modes, Redis unreachable", Kind: Failing, Role: access.RoleEditor,
			Path: "/console/fail-modes"},
		{Name: "key", About: "Key, blocked", Role: access.RoleEditor,
			Path: "/console/keys?rule=charges-per-user&key=user%3A42", Prepare: spendSome},
		{Name: "key-free", About: "Key without an override", Role: access.RoleEditor,
			Path: "/console/keys?rule=charges-per-user&key=user%3A43", Prepare: spendSome},
		{Name: "key-banned", About: "Key, banned", Role: access.RoleEditor,
			Path: "/console/keys?rule=charges-per-user&key=user%3A43", Prepare: BanSome},
		{Name: "rule-ban-edit", About: "Edit a rule with a ban", Role: access.RoleEditor, Path: "/console/rules/1/edit",
			Prepare: BanSome},
		{Name: "key-lookup", About: "Inspect a key", Role: access.RoleViewer, Path: "/console/keys"},
		{Name: "missing", About: "404", Role: access.RoleViewer, Path: "/console/no-such-page"},
	}, errorPages(), alertPages(), replayPages())
}

// Visit creates the world of a page and requests the page.
func (s *Shown) Visit() (Page, error) {
	w, err := New(s.Kind)
	if err != nil {
		return Page{}, err
	}
	defer func() { _ = w.Close() }()
	if s.Prepare != nil {
		s.Prepare(w)
	}
	b := w.As(s.Role)
	w.Clock.Add(s.Later)
	if s.Form == nil {
		return b.Get(w.Fill(s.Path)), nil
	}
	form := url.Values{}
	for k, vs := range s.Form {
		form.Set(k, w.Fill(vs[0]))
	}
	return b.Do(http.MethodPost, w.Fill(s.Path), form), nil
}

// Fill replaces placeholders in a path or value: $WELCOME by the secret of the first start, $INVITE by the secret of a
// new link to choose a password, and $ARRIVE by the path with which the arriving person returns from the provider.
// fillJob replaces the placeholders of jobs.
func (w *World) Fill(text string) string {
	text = strings.ReplaceAll(text, "$WELCOME", w.WelcomeSecret)
	if strings.Contains(text, "$INVITE") {
		text = strings.ReplaceAll(text, "$INVITE", w.invite())
	}
	if strings.Contains(text, "$ARRIVE") {
		text = strings.ReplaceAll(text, "$ARRIVE", w.Provider.Answer(*w.Provider.Arriving))
	}
	return w.fillJob(text)
}

// invite creates a link for the viewer as the admin and returns the secret of the link. It panics on failure, because
// the other pages could not work either.
func (w *World) invite() string {
	page := w.As(access.RoleAdmin).Post("/console/people/1/link", url.Values{})
	_, rest, found := strings.Cut(page.Body, "/console/invite?token=")
	if !found {
		panic("webtest: no link to choose a password: " + page.Body)
	}
	return rest[:strings.IndexFunc(rest,
		func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })]
}

// editMeanwhile lets ada edit the first rule.
func editMeanwhile(w *World) {
	r := w.Rules.List[0].Clone()
	r.Limit, r.Description = 120, "Raised for the sale."
	_, _ = w.Rules.UpdateRule(context.Background(), rules.Actor{Kind: "user", Name: "ada"}, r, r.Version)
}

// editedSince lets ada edit the first rule and puts it in force.
func editedSince(w *World) {
	editMeanwhile(w)
	mustCompile(w)
}

// everything gives the second rule as much as one rule can have.
func everything(w *World) {
	n, text := func(n int64) *int64 { return &n }, func(s string) *string { return &s }
	from := Now.Add(24 * time.Hour)
	r := &w.Rules.List[1]
	r.When, r.ActiveFrom, r.RetryJitterMS = text(`tier != "internal"`), &from, n(1500)
	r.Throttle, r.SoftPercent = rules.ThrottleSoft, n(20)
	r.Tiers = map[string]rules.TierLimit{"free": {Limit: n(10)}, "gold": {Limit: n(600), Burst: n(100)},
		"internal": {Unlimited: true}}
	r.Schedule = &rules.Schedule{Zone: "Europe/Berlin", Windows: []rules.ScheduleWindow{
		{Days: []string{"sat", "sun"}, From: "00:00", To: "24:00", Percent: n(200)},
		{From: "22:00", To: "06:00", Limit: n(30), Burst: n(5)},
	}}
	r.OverLimit, r.Defer = rules.OverLimitDefer, &rules.Defer{MaxItems: 500, MaxAgeMS: 900_000}
	r.Candidate = &rules.Candidate{Algorithm: "gcra", Limit: n(90)}
	r.HotKeys, r.HotRaisePercent = rules.HotKeysLeased, n(50)
}
