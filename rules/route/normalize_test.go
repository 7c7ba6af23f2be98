package route

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFold_LowersAsciiLettersOutsideOfEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "/": "/", "/v1/charges": "/v1/charges", "/V1/Charges": "/v1/charges", "/a%2FB/%3BC": "/a%2Fb/%3Bc",
		"/É/Z": "/É/z", "/A%": "/a%", "/A%2": "/a%2", "/[@Z`{": "/[@z`{",
	} {
		if got := Fold(in); got != want || Fold(got) != got {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { Fold("/v1/charges/%2F") }); n != 0 {
		t.Errorf("a folded path allocates %v times", n)
	}
}

func TestCovers_GetCountsHead(t *testing.T) {
	for _, c := range []struct {
		method, asked string
		want          bool
	}{
		{"GET", "GET", true}, {"GET", "HEAD", true}, {"HEAD", "HEAD", true}, {"HEAD", "GET", false}, {"POST", "HEAD", false},
		{"GET", "POST", false}, {"GET", "", false},
	} {
		if got := Covers(c.method, c.asked); got != c.want {
			t.Errorf("%s, %s: got %v", c.method, c.asked, got)
		}
	}
}

func TestNormalize_GivesOneSpelling(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "",
		"/":                          "/",
		"/v1/charges":                "/v1/charges",
		"/v1/charges/":               "/v1/charges",
		"/v1/charges//":              "/v1/charges",
		"//v1//charges":              "/v1/charges",
		"v1/charges":                 "/v1/charges",
		"/v1/./charges":              "/v1/charges",
		"/v1/x/../charges":           "/v1/charges",
		"/v1/..":                     "/",
		"/../../v1":                  "/v1",
		"/..":                        "/",
		"/.":                         "/",
		"/v1/...":                    "/v1/...",
		"/v1/.hidden":                "/v1/.hidden",
		"/v1/a.b":                    "/v1/a.b",
		"/v1/charges?q=/../x":        "/v1/charges",
		"/v1/charges#top":            "/v1/charges",
		"?q":                         "/",
		"/v1/%63harges":              "/v1/charges",
		"/v1/x/%2e%2E/charges":       "/v1/charges",
		"/v1/a%2fb":                  "/v1/a%2Fb",
		"/v1/a%3Fb%23":               "/v1/a%3Fb%23",
		"/v1/100%":                   "/v1/100%25",
		"/v1/%%361":                  "/v1/%2561",
		"/v1/%2561":                  "/v1/%2561",
		"/v1/%0a":                    "/v1/%0A",
		"/v1/\n\x7f":                 "/v1/%0A%7F",
		"/v1/caf%C3%A9":              "/v1/café",
		"/v1/%7Bid%7D":               "/v1/{id}",
		"/V1/Charges":                "/V1/Charges",
		"*":                          "/*",
		"/v1/a b":                    "/v1/a b",
		"https://example.org/a":      "/a",
		"HTTP://example.org/a?b=/c":  "/a",
		"https://example.org":        "/",
		"https://example.org?a":      "/",
		"://":                        "/",
		"/https://example.org/a":     "/https:/example.org/a",
		"a/b://c/d":                  "/a/b:/c/d",
		"a?b=https://example.org/a":  "/a",
		"/login;x=1":                 "/login",
		"/a;b=1/c;d;e/":              "/a/c",
		"/v1/..;/charges":            "/charges",
		"/v1/%2e%2E;x/charges":       "/charges",
		"/v1/..%3b/charges":          "/v1/..%3B/charges",
		"/a%3bb":                     "/a%3Bb",
		";x":                         "/",
		"/v1/charges/../../../../a/": "/a",
	} {
		if got := Normalize(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestNormalize_DoesNotAllocateWhenClean(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Normalize("/v1/charges/a.b/{x}") }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

// FuzzNormalize: the result is a fixed point with the promised shape.
func FuzzNormalize(f *testing.F) {
	for _, s := range []string{"/v1/../x", "//a//", "%%361", "/a%2fb?c#d", "/\x00%7f", "/%", "/%2", "..", "/a/.%2e/b",
		"/a;b/..;c/d", "a://b/c;d", "/%3b;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out := Normalize(in)
		if again := Normalize(out); again != out {
			t.Fatalf("%q became %q, which became %q", in, out, again)
		}
		if in == "" {
			return
		}
		if out[0] != '/' || len(out) > 1 && out[len(out)-1] == '/' {
			t.Fatalf("%q became %q", in, out)
		}
		for i := range len(out) {
			if isControl(out[i]) || strings.IndexByte("?#;", out[i]) >= 0 || i > 0 && out[i] == '/' && out[i-1] == '/' {
				t.Fatalf("%q became %q", in, out)
			}
		}
		if p, err := Parse(out); err == nil && utf8.ValidString(out) && p.Exact() && !p.Matches(out) {
			t.Fatalf("route %q does not match itself", out)
		}
	})
}
