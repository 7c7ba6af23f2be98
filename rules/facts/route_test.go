package facts

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/rules/match"
	"sluice/rules/profile"
	"sluice/rules/route"
)

func routeReader(t testing.TB, path string, templates ...string) *Reader {
	t.Helper()
	return reader(t, &profile.Profile{Path: path, Routes: templates})
}

func TestRoute_LiteralBeatsParameterBeatsTail(t *testing.T) {
	templates := []string{"/", "/users/{id}", "/users/me", "/users/*", "/users/{id}/cards", "/users/me/*",
		"/{a}/me/x", "/b/*"}
	backwards := slices.Clone(templates)
	slices.Reverse(backwards)
	for path, want := range map[string]string{
		"/":                "/",
		"/users":           "/users/*",
		"/users/17":        "/users/{id}",
		"/users/me":        "/users/me",
		"/users/me/cards":  "/users/me/*", // the literal me beats {id} before cards is looked at
		"/users/17/cards":  "/users/{id}/cards",
		"/users/17/orders": "/users/*",
		"/users/me/x":      "/users/me/*",
		"/a/me/x":          "/{a}/me/x",
		"/b":               "/b/*",
		"/b/c/d":           "/b/*",
		"/other":           "/other",
		"/USERS/17":        "/USERS/17",
		"/users/{id}":      "/users/{id}",
	} {
		for _, list := range [][]string{templates, backwards} {
			if got := routeReader(t, profile.PathNormal, list...).route(path); got != want {
				t.Errorf("%s: got %s, want %s", path, got, want)
			}
		}
	}
}

func TestRoute_ReadsPathsAsServersDo(t *testing.T) {
	for target, want := range map[string]string{
		"/charges":                     "/charges",
		"//charges":                    "/charges",
		"/charges/":                    "/charges",
		"/charges//?a=b":               "/charges",
		"/charges#x":                   "/charges",
		"/./charges":                   "/charges",
		"/x/../charges":                "/charges",
		"/x/%2e%2E/charges":            "/charges",
		"/%63harges":                   "/charges",
		"/charges;x":                   "/charges",
		"/charges;a=1;b=2?q":           "/charges",
		"/;a/charges":                  "/charges",
		"/x/..;/charges":               "/charges",
		"/charges%3Bx":                 "/charges%3Bx", // escaped, it is part of the name
		"/a%2Fcharges":                 "/a%2Fcharges",
		"/a%ff%C3%A9\xfe":              "/a%FFé%FE",
		"http://shop.example/charges":  "/charges",
		"HTTP://shop.example/charges?": "/charges",
		"http://shop.example":          "/",
		"http://shop.example?q":        "/",
		"/http://x/charges":            "/http:/x/charges",
		"charges":                      "/charges",
		"shop.example:443":             "/shop.example:443",
		"*":                            "/*",
		"?q":                           "/",
		";x":                           "/",
		"":                             "",
	} {
		if got := routeReader(t, profile.PathNormal).route(target); got != want {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
	}
}

func TestRoute_RawPathsStayAsSent(t *testing.T) {
	r := routeReader(t, profile.PathRaw, "/users/{id}", "/files/*", "/")
	for target, want := range map[string]string{
		"/users/17?q":      "/users/{id}",
		"/users/%31":       "/users/{id}",
		"/%75sers/17":      "/%75sers/17",
		"/users//17":       "/users//17",
		"/users/17/":       "/users/17/",
		"/users/":          "/users/",
		"/files/":          "/files/*",
		"/files//a/../b;x": "/files/*",
		"/":                "/",
		"//":               "//",
	} {
		if got := r.route(target); got != want {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
	}
}

func TestRoute_BoundsLongPaths(t *testing.T) {
	r := routeReader(t, profile.PathNormal, "/v1/{id}")
	long := strings.Repeat("x", 4000)
	if got := r.route("/v1/" + long); got != "/v1/{id}" {
		t.Errorf("template: got %.40s", got)
	}
	for _, path := range []string{"/v2/" + long, strings.Repeat("/a", 4000), strings.Repeat("/"+long, 4)} {
		got := r.route(path)
		if len(got) > match.MaxText || got == "" || strings.HasPrefix(path, "/v2") && !strings.HasPrefix(got, "/v2/") {
			t.Errorf("%.10s: got %d bytes, %.40s", path, len(got), got)
		}
	}
	pattern, err := route.Parse("/v2/{id}/x")
	if err != nil {
		t.Fatal(err)
	}
	if got := r.route("/v2/" + long + "/x"); !pattern.Matches(got) {
		t.Errorf("a rule's pattern does not match %s", got)
	}
	if r.route("/v2/"+long) == r.route("/v2/"+long+"x") {
		t.Error("two long paths are one route")
	}
}

// better reports whether template a is better than b for a path that both fit, by their segments
// from the left.
func better(a, b string) bool {
	rank := func(segments []string, i int) int {
		switch {
		case i >= len(segments):
			return 1
		case segments[i] == "*":
			return 0
		case strings.HasPrefix(segments[i], "{"):
			return 2
		}
		return 3
	}
	as, bs := strings.Split(a[1:], "/"), strings.Split(b[1:], "/")
	for i := range max(len(as), len(bs)) {
		if x, y := rank(as, i), rank(bs, i); x != y {
			return x > y
		}
	}
	return false
}

func TestRoute_AgreesWithNaiveMatcher(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "c", "{x}", "{y}"})
		template := rapid.Custom(func(t *rapid.T) string {
			s := "/" + strings.Join(rapid.SliceOfN(segment, 0, 4).Draw(t, "segments"), "/")
			if rapid.Bool().Draw(t, "tail") {
				return strings.TrimSuffix(s, "/") + "/*"
			}
			return s
		})
		same := func(s string) string { return strings.ReplaceAll(s, "{y}", "{x}") }
		templates := rapid.SliceOfNDistinct(template, 0, 12, same).Draw(t, "templates")
		r, err := New(&profile.Profile{Path: profile.PathNormal, Routes: templates})
		if err != nil {
			t.Fatal(err)
		}
		word := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		for range 10 {
			path := "/" + strings.Join(rapid.SliceOfN(word, 0, 5).Draw(t, "path"), "/")
			want, found := path, false
			for _, candidate := range templates {
				p, err := route.Parse(candidate)
				if err != nil {
					t.Fatal(err)
				}
				if p.Matches(path) && (!found || better(candidate, want)) {
					want, found = candidate, true
				}
			}
			if got := r.route(path); got != want {
				t.Fatalf("%s among %v: got %s, want %s", path, templates, got, want)
			}
		}
	})
}

func TestRoute_FoldedTemplatesMatchInAnyCase(t *testing.T) {
	r := reader(t, &profile.Profile{Path: profile.PathNormal, Routes: []string{"/Users/{id}", "/users/{name}", "/B/*"},
		FoldRoutes: true})
	for path, want := range map[string]string{
		"/USERS/17": "/Users/{id}", "/users/17": "/Users/{id}", "/b/C": "/B/*", "/Other": "/Other",
	} {
		if got := r.route(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
