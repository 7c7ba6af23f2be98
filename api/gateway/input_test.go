package gateway

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/profile"
)

func TestProof_WithoutItNothingIsAnswered(t *testing.T) {
	near, far := "10.1.2.3:5", "192.0.2.1:5"
	token := shop()
	network := shop()
	network.Proof = profile.Proof{Networks: []string{"10.0.0.0/8", "::1"}}
	none := shop()
	none.Proof = profile.Proof{}
	for _, tt := range []struct {
		name    string
		profile profile.Profile
		open    bool // no token exists
		peer    string
		header  []string
		want    int
	}{
		{"token", token, false, far, nil, 200},
		{"no token", token, false, far, []string{"Sluice-Token", ""}, 401},
		{"a wrong token", token, false, far, []string{"Sluice-Token", "", "Sluice-Token", "slk_x"}, 401},
		{"the client's own header", token, false, far, []string{"Sluice-Token", "", "Authorization", "Bearer SECRET"}, 401},
		{"open mode", token, true, "127.0.0.1:5", []string{"Sluice-Token", ""}, 401},
		{"open mode, a token of earlier", token, true, "127.0.0.1:5", nil, 401},
		{"network", network, false, near, []string{"Sluice-Token", ""}, 200},
		{"network in open mode", network, true, near, []string{"Sluice-Token", ""}, 200},
		{"IPv6", network, false, "[::1]:5", []string{"Sluice-Token", ""}, 200},
		{"a mapped address", network, false, "[::ffff:10.1.2.3]:5", []string{"Sluice-Token", ""}, 200},
		{"a forwarded address", network, false, far, []string{"Sluice-Token", "", "X-Real-Ip", "10.1.2.3", "Forwarded",
			"for=10.1.2.3", "X-Forwarded-For", "10.1.2.3"}, 401},
		{"a token that the profile does not take", network, false, far, nil, 401},
		{"no way to prove", none, false, near, nil, 401},
	} {
		f := newFixture(t, perUser(0), tt.profile)
		if tt.open {
			f.keys.Store(access.NewKeyring(nil))
		}
		for i, v := range tt.header {
			tt.header[i] = strings.ReplaceAll(v, "SECRET", f.secret)
		}
		for face, want := range map[string]int{"forward": tt.want, "ext_authz": tt.want, "nginx": tt.want} {
			if face == "nginx" && want == http.StatusUnauthorized {
				want = http.StatusBadRequest
			}
			a := f.askFrom(tt.peer, "GET", "/ratelimit/"+face+"/shop", append([]string{"X-Forwarded-Method", "GET",
				"X-Forwarded-Uri", "/", "X-Forwarded-For", "203.0.113.7"}, tt.header...)...)
			if a.status != want {
				t.Errorf("%s, %s: got %d %s", tt.name, face, a.status, a.body)
			}
			if tt.want == http.StatusUnauthorized && (f.count(face, resultNoProof) != 1 || len(header(a, "RateLimit")) > 0) {
				t.Errorf("%s, %s: counted %v, headers %v", tt.name, face, f.counts, a.header)
			}
		}
	}
}

// Whoever has no credential does not learn which profiles exist, and a mistake in the name is still counted as such.
func TestProof_NamesOfProfilesAreNoSecretOnlyWithAToken(t *testing.T) {
	network, certificate := shop(), shop()
	network.Name, network.Proof = "network", profile.Proof{Networks: []string{"10.0.0.0/8"}}
	certificate.Name, certificate.Proof = "certificate", profile.Proof{Certificates: []string{"edge"}}
	f := newFixture(t, perUser(1), shop(), network, certificate)
	for _, face := range Faces() {
		for _, token := range []string{"", "slk_x"} {
			clear(f.counts)
			path := "/ratelimit/" + face + "/"
			want := f.ask("GET", path+"ship", "Sluice-Token", "", "Sluice-Token", token)
			if got := f.count(face, resultUnknownProfile); got != 1 || want.status == http.StatusNotFound {
				t.Errorf("%s, token %q: got %d %s, counted %v", face, token, want.status, want.body, f.counts)
			}
			for _, name := range []string{"shop", "network", "certificate", ""} {
				a := f.ask("GET", path+name, "Sluice-Token", "", "Sluice-Token", token)
				if diff := cmp.Diff(want, a, cmp.AllowUnexported(want)); diff != "" {
					t.Errorf("%s, token %q, profile %q (-unknown +it): %s", face, token, name, diff)
				}
			}
		}
	}
}

func TestBadInput_IsRefusedAndCountedByReason(t *testing.T) {
	f := newFixture(t, perUser(1))
	for _, tt := range []struct {
		name, profile string
		header        []string
		status        int
		names         string
		result        string
	}{
		{"unknown profile", "/ship", nil, 404, "", resultUnknownProfile},
		{"no profile", "/", nil, 404, "", resultUnknownProfile},
		{"a path after the profile", "/shop/x", nil, 404, "", resultUnknownProfile},
		{"unknown profile and no proof", "/ship", []string{"Sluice-Token", ""}, 401,
			"There is no profile of this name, or", resultUnknownProfile},
		{"no proof", "/shop", []string{"Sluice-Token", ""}, 401, "", resultNoProof},
		{"no method", "/shop", []string{"X-Forwarded-Method", ""}, 400, "X-Forwarded-Method",
			resultMissingHeader},
		{"no path", "/shop", []string{"X-Forwarded-Uri", ""}, 400, "X-Forwarded-Uri",
			resultMissingHeader},
		{"no address", "/shop", []string{"X-Forwarded-For", ""}, 400, "X-Forwarded-For",
			resultMissingHeader},
	} {
		for _, face := range []string{"forward", "nginx"} {
			before := f.count(face, tt.result)
			a := f.ask("GET", "/ratelimit/"+face+tt.profile, append([]string{"X-Forwarded-Method", "GET", "X-Forwarded-Uri",
				"/", "X-Forwarded-For", "203.0.113.7", "X-User", "1"}, tt.header...)...)
			want := tt.status
			if face == "nginx" {
				want = http.StatusBadRequest
			}
			kind, status := problemOf(t, a)
			if a.status != want || status != want || kind != "about:blank" || !strings.Contains(a.body, tt.names) {
				t.Errorf("%s, %s: got %d %s", tt.name, face, a.status, a.body)
			}
			if f.count(face, tt.result) != before+1 {
				t.Errorf("%s, %s: counted %v", tt.name, face, f.counts)
			}
		}
	}
	if a := f.forwarded("forward", "GET", "/", "X-Forwarded-Host", "", "X-User", "1"); a.status != http.StatusOK {
		t.Errorf("without a host, as HTTP/1.0 clients are: got %d", a.status)
	}
	f.keys.Store(nil)
	if a := f.forwarded("nginx", "GET", "/"); a.status != http.StatusServiceUnavailable ||
		f.count("nginx", resultNotReady) != 1 {
		t.Errorf("tokens not loaded: got %+v", a)
	}
	f.sets.Store(nil)
	if a := f.forwarded("forward", "GET", "/"); a.status != http.StatusServiceUnavailable {
		t.Errorf("rules not loaded: got %+v", a)
	}
}

// The spellings of one request are one request, and what a client writes forges no other bucket.
func TestEvasions_MeetTheSameBucket(t *testing.T) {
	jwt := func(header, payload string) string {
		enc := base64.RawURLEncoding.EncodeToString
		return "Bearer " + enc([]byte(header)) + "." + enc([]byte(payload)) + "."
	}
	long := strings.Repeat("x", 4000)
	untrusting := shop()
	untrusting.Claims = profile.ClaimsOff
	rs := []rules.Rule{
		rule(1, "charges", "route", 1, onRoute("/charges")),
		rule(2, "addresses", "ip", 1, onRoute("/ip")),
		rule(3, "users", "user", 1, onRoute("/users/{id}")),
		rule(4, "all", "global", 1, onRoute("/v2/*")),
	}
	for _, tt := range []struct {
		name      string
		uri       string
		header    []string
		same      bool // as the request of the victim
		victim    string
		victimHas []string
		profile   profile.Profile
	}{
		{"double slash", "//charges", nil, true, "/charges", nil, shop()},
		{"trailing slash", "/charges/", nil, true, "/charges", nil, shop()},
		{"dot", "/./charges", nil, true, "/charges", nil, shop()},
		{"escaped dots", "/a/%2e%2E/charges", nil, true, "/charges", nil, shop()},
		{"escaped letter", "/%63harges", nil, true, "/charges", nil, shop()},
		{"parameters", "/charges;x", nil, true, "/charges", nil, shop()},
		{"dots with parameters", "/a/..;x/charges", nil, true, "/charges", nil, shop()},
		{"query", "/charges?/other", nil, true, "/charges", nil, shop()},
		{"fragment", "/charges#/other", nil, true, "/charges", nil, shop()},
		{"a whole URL", "http://x/charges", nil, true, "/charges", nil, shop()},
		{"case, which names another resource", "/CHARGES", nil, false, "/charges", nil, shop()},
		{"method in lower case", "/charges", []string{"X-Forwarded-Method", "get"}, true, "/charges", nil, shop()},
		{"a long path", "/v2/" + long, nil, true, "/v2/a", nil, shop()},
		{"a path that is not UTF-8", "/v2/\xff%ff", nil, true, "/v2/a", nil, shop()},
		{"an address written by the client", "/ip", []string{"X-Forwarded-For", "", "X-Forwarded-For",
			"198.51.100.1, 203.0.113.7"}, true, "/ip", nil, shop()},
		{"two headers with addresses", "/ip", []string{"X-Forwarded-For", "", "X-Forwarded-For", "198.51.100.1",
			"X-Forwarded-For", "203.0.113.7"}, true, "/ip", nil, shop()},
		{"an address with a port", "/ip", []string{"X-Forwarded-For", "", "X-Forwarded-For", "203.0.113.7:99"}, true, "/ip",
			nil, shop()},
		{"a claimed proxy", "/ip", []string{"X-Forwarded-For", "", "X-Forwarded-For", "10.0.0.9, 203.0.113.7, 10.0.0.1"},
			true, "/ip", nil, shop()},
		{"the victim's address to the left", "/ip", []string{"X-Forwarded-For", "", "X-Forwarded-For",
			"203.0.113.7, 198.51.100.1"}, false, "/ip", nil, shop()},
		{"another user", "/users/1", []string{"X-User", "2"}, false, "/users/1", []string{"X-User", "1"}, shop()},
		{"separators in a user", "/users/1", []string{"X-User", "1|3|fw"}, false, "/users/1", []string{"X-User", "1"},
			shop()},
		{"braces in a user", "/users/1", []string{"X-User", "1}"}, false, "/users/1", []string{"X-User", "1"}, shop()},
		{"a long user", "/users/1", []string{"X-User", long + "a"}, false, "/users/1", []string{"X-User", long}, shop()},
		{"a user that is not UTF-8", "/users/1", []string{"X-User", "\xff"}, false, "/users/1", []string{"X-User", "\xfe"},
			shop()},
		{"64 KiB of cookies", "/users/1", []string{"Cookie", strings.Repeat("a=b; ", 13_000) + "uid=1"}, true, "/users/2",
			[]string{"X-User", "1"}, shop()},
		{"a token of alg none that the gateway verified", "/users/1", []string{"Authorization", jwt(`{"alg":"none"}`,
			`{"sub":"1"}`)}, true, "/users/2", []string{"X-User", "1"}, shop()},
		{"claims of a token while they are off", "/users/1", []string{"Authorization", jwt(`{"alg":"none"}`,
			`{"sub":"1"}`)}, false, "/users/2", []string{"X-User", "1"}, untrusting},
		{"a broken token", "/users/1", []string{"Authorization", "Bearer a.!.c", "Cookie", "uid=1"}, true, "/users/2",
			[]string{"X-User", "1"}, shop()},
	} {
		for _, face := range []string{"forward", "nginx"} {
			f := newFixture(t, rs, tt.profile)
			if a := f.forwarded(face, "GET", tt.victim, tt.victimHas...); a.status != http.StatusOK {
				t.Fatalf("%s: the victim got %d %s", tt.name, a.status, a.body)
			}
			a := f.forwarded(face, "GET", tt.uri, tt.header...)
			denied := http.StatusTooManyRequests
			if face == "nginx" {
				denied = http.StatusForbidden
			}
			if tt.same && a.status != denied || !tt.same && a.status != http.StatusOK {
				t.Errorf("%s, %s: got %d, the same bucket: %v", tt.name, face, a.status, tt.same)
			}
			for name, values := range a.header {
				if got := name + strings.Join(values, ""); strings.ContainsAny(got, "\r\n") || strings.Contains(got, "xxxx") {
					t.Errorf("%s: header %q", tt.name, got)
				}
			}
			if f.logged.Len() > 0 {
				t.Errorf("%s: logged %s", tt.name, f.logged.String())
			}
		}
	}
}

// On ext_authz the client's path is part of the question's, which net/http has read before.
func TestEvasions_OfPathsMeetTheSameBucketOnExtAuthz(t *testing.T) {
	for _, path := range []string{"//charges", "/charges/", "/./charges", "/../charges", "/shop/../charges",
		"/a/%2e%2E/charges", "/%63harges", "/charges;x", "/a/..;x/charges", "/charges?/other", "/charges#/other"} {
		f := newFixture(t, []rules.Rule{rule(1, "charges", "route", 1, onRoute("/charges"))})
		f.ask("GET", "/ratelimit/ext_authz/shop/charges")
		res, _, _ := raw(t, f, question(f, "GET /ratelimit/ext_authz/shop"+path+" HTTP/1.1", ""))
		if res.status != http.StatusTooManyRequests {
			t.Errorf("%s: got %d", path, res.status)
		}
	}
}

// A gateway that adds its headers to those of the client adds them last.
func TestForwardedHeaders_TheLastIsTheGateways(t *testing.T) {
	get := "GET"
	f := newFixture(t, []rules.Rule{
		rule(1, "charges", "route", 0, onRoute("/charges"), func(r *rules.Rule) { r.Method = &get }),
	})
	a := f.ask("GET", "/ratelimit/forward/shop", "X-Forwarded-Method", "POST", "X-Forwarded-Method", "GET",
		"X-Forwarded-Uri", "/free", "X-Forwarded-Uri", "/charges", "X-Forwarded-For", "203.0.113.7")
	if a.status != http.StatusTooManyRequests {
		t.Errorf("got %d", a.status)
	}
}

// raw sends bytes to a real server and reads one answer.
func raw(t *testing.T, f *fixture, text string) (sent, *bufio.Reader, net.Conn) {
	t.Helper()
	server := httptest.NewServer(f.handler)
	t.Cleanup(server.Close)
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n"))); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	return readAnswer(t, in), in, conn
}

// sent is the head of an answer.
type sent struct {
	status int
	closes bool
}

func readAnswer(t *testing.T, in *bufio.Reader) sent {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return sent{res.StatusCode, res.Close}
}

func question(f *fixture, line, more string) string {
	return fmt.Sprintf("%s\nHost: sluice\nSluice-Token: %s\nX-Forwarded-Method: POST\nX-Forwarded-Uri: /\n"+
		"X-Forwarded-For: 203.0.113.7\nX-User: 1\n%s\n", line, f.secret, more)
}

func TestQuestions_AreAnsweredWithoutTheirBody(t *testing.T) {
	f := newFixture(t, perUser(2))
	// The client's Content-Length, and no body. An answer that waited for it would never come.
	res, _, _ := raw(t, f, question(f, "GET /ratelimit/forward/shop HTTP/1.1", "Content-Length: 1234\n"))
	if res.status != http.StatusOK || !res.closes {
		t.Errorf("got %d, closes: %v", res.status, res.closes)
	}
	// A chunked body that has begun.
	res, in, conn := raw(t, f, question(f, "POST /ratelimit/forward/shop HTTP/1.1", "Transfer-Encoding: chunked\n")+
		"3\nabc\n")
	if res.status != http.StatusOK || res.closes {
		t.Errorf("chunked: got %d, closes: %v", res.status, res.closes)
	}
	// The rest of it and the next question.
	rest := "0\n\n" + question(f, "GET /ratelimit/forward/shop HTTP/1.1", "")
	if _, err := conn.Write([]byte(strings.ReplaceAll(rest, "\n", "\r\n"))); err != nil {
		t.Fatal(err)
	}
	if res = readAnswer(t, in); res.status != http.StatusTooManyRequests {
		t.Errorf("the next question got %d", res.status)
	}
}

// What a client writes into its body is never a request of its own: a gateway would take the answer for that of the
// next client's question.
func TestQuestions_BodiesHideNoRequests(t *testing.T) {
	hidden := "GET /ratelimit/ext_authz/shop/ HTTP/1.1\nHost: x\n\n"
	chunk := func(body string) string { // raw makes two bytes of each line end
		return fmt.Sprintf("%x\n%s\n0\n\n", len(body)+strings.Count(body, "\n"), body)
	}
	for name, body := range map[string]string{
		"a long body":          chunk(strings.Repeat("x", maxBody) + strings.Repeat(hidden, 200)),
		"an invalid chunk":     "zz\n" + hidden,
		"a chunk without end":  "1\nabc\n" + hidden,
		"a giant extension":    "1;" + strings.Repeat("x", 100<<10) + "\n" + hidden,
		"a chunk of no number": "-1\n" + hidden,
	} {
		f := newFixture(t, perUser(2))
		res, in, conn := raw(t, f, question(f, "POST /ratelimit/forward/shop HTTP/1.1", "Transfer-Encoding: chunked\n")+body)
		if res.status != http.StatusOK {
			t.Errorf("%s: got %d", name, res.status)
		}
		if next, err := in.ReadString('\n'); next != "" {
			t.Errorf("%s: after the answer came %q %v", name, next, err)
		}
		_ = conn.Close()
	}
}

func TestQuestions_OfHTTP10AreAnswered(t *testing.T) {
	f := newFixture(t, perUser(1))
	line := "GET /ratelimit/nginx/shop HTTP/1.0"
	if res, _, _ := raw(t, f, question(f, line, "")); res.status != http.StatusOK || !res.closes {
		t.Errorf("got %d, closes: %v", res.status, res.closes)
	}
	if res, _, _ := raw(t, f, question(f, line, "Connection: keep-alive\n")); res.status != http.StatusForbidden {
		t.Errorf("got %d", res.status)
	}
}

func TestQuestions_WithAWholeURLAreAnswered(t *testing.T) {
	f := newFixture(t, perUser(1))
	res, _, _ := raw(t, f, question(f, "GET http://sluice/ratelimit/forward/shop HTTP/1.1", ""))
	if res.status != http.StatusOK {
		t.Errorf("got %d", res.status)
	}
}
