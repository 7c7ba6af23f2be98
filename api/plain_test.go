package api

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
	"sluice/rules"
)

// twins are the same server three times: with a loop, with plain checks one by one, and with net/http alone.
type twins struct {
	t      testing.TB
	loop   *wire
	on     *wire
	off    *wire
	secret string
}

// newTwins starts in open mode, or with a token.
func newTwins(t testing.TB, withToken bool) *twins {
	t.Helper()
	secret, hash := access.NewSecret()
	one := func(by reader) *wire {
		f := newFixture(t, []rules.Rule{perUser("per-user", 2)})
		if withToken {
			f.access.Store(access.NewKeyring([]access.Token{{ID: 1, Name: "gateway", Hash: hash,
				Scopes: []access.Scope{access.ScopeCheck}}}))
		}
		return newWire(t, f, by)
	}
	return &twins{t: t, loop: one(byLoop), on: one(byServer), off: one(byNetHTTP), secret: secret}
}

// send sends the input to both and wants the same answers and the same calls of the store. It returns the answers and
// the number of calls.
func (w *twins) send(input string, packet int) (answers string, calls int) {
	w.t.Helper()
	input = strings.ReplaceAll(input, "SECRET", w.secret)
	w.loop.t = w.t
	off := w.off.send([]byte(input), packet)
	without := w.off.fixture.calls()
	for name, other := range map[string]*wire{"by a loop": w.loop, "one by one": w.on} {
		answers = other.send([]byte(input), packet)
		if diff := cmp.Diff(sorted(off), sorted(answers)); diff != "" {
			w.t.Fatalf("%s, %.500q in packets of %d is answered otherwise:\n%s", name, input, packet, diff)
		}
		if diff := cmp.Diff(without, other.fixture.calls()); diff != "" {
			w.t.Fatalf("%s, %.500q in packets of %d: the calls of the store differ:\n%s", name, input, packet, diff)
		}
	}
	for _, line := range without {
		if line != "in the caller's time" {
			calls++
		}
	}
	return answers, calls
}

// calls returns what was asked of the store since the last time, one line a limit, and whether the last caller said how
// long it waits.
func (f *fixture) calls() (lines []string) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	for i := range f.store.asks {
		for _, ask := range f.store.asks[i].Asks {
			lines = append(lines, fmt.Sprintf("%v %s %d", f.store.asks[i].Op, ask.Key, ask.Weight))
		}
	}
	if len(lines) > 0 && !f.store.bound.Hard.IsZero() {
		lines = append(lines, "in the caller's time")
	}
	f.store.asks = f.store.asks[:0]
	return lines
}

// asHTTP writes a request to the check.
func asHTTP(body string, lines ...string) string {
	return "POST /ratelimit/check HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n", len(body)) + strings.Join(append(lines, "", ""), "\r\n") + body
}

const ada = `{"user":"ada"}`

// smuggled are inputs in which two servers could see different requests. What net/http makes of them is not changed: a
// request with a length and with chunks, for one, is read by its chunks. reason is why net/http gets the connection, ""
// if it does not; calls is how many checks are decided.
var smuggled = []struct {
	name, input, reason string
	calls               int
}{
	{"one", asHTTP(ada), "", 1},
	{"two in one packet", asHTTP(ada) + asHTTP(ada), "", 2},
	{"and another route", asHTTP(ada) + "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n" + asHTTP(ada), "other_request", 2},
	{"trailing rubbish", asHTTP(ada) + "rubbish\r\n\r\n", "other_request", 1},
	{"an incomplete second", asHTTP(ada) + asHTTP(ada)[:40], "cut_short", 1},
	{"an incomplete body", asHTTP(ada)[:len(asHTTP(ada))-3], "cut_short", 0},
	{"three bytes behind", asHTTP(ada) + "POS", "", 1},
	{"line breaks behind", asHTTP(ada) + "\r\n\r\n" + asHTTP(ada), "header", 2},
	{"more line breaks", asHTTP(ada) + "\r\n\r\n\r\n" + asHTTP(ada), "header", 1},
	{"a line break in front", "\r\n" + asHTTP(ada), "other_request", 0},
	{"only line breaks behind", asHTTP(ada) + "\r\n\r\n", "header", 1},
	{"CL.TE", asHTTP("0\r\n\r\n"+asHTTP(ada), "Transfer-Encoding: chunked"), "header", 1},
	{"TE.CL", "POST /ratelimit/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
		"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\ne\r\n" + ada + "\r\n0\r\n\r\n", "header", 1},
	{"chunked", "POST /ratelimit/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
		"Transfer-Encoding: chunked\r\n\r\ne\r\n" + ada + "\r\n0\r\n\r\n" + asHTTP(ada), "header", 2},
	{"a chunk with an extension", "POST /ratelimit/check HTTP/1.1\r\nHost: localhost\r\n" +
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\ne;a=b\r\n" + ada + "\r\n0\r\n\r\n", "header", 1},
	{"TE.TE", asHTTP(ada, "Transfer-Encoding: chunked", "Transfer-Encoding: cow"), "header", 0},
	{"a masked TE", asHTTP(ada, "Transfer-Encoding: xchunked"), "header", 0},
	{"a space before the colon", asHTTP(ada, "Transfer-Encoding : chunked"), "header", 0},
	{"a tab before the colon", asHTTP(ada, "Transfer-Encoding\t: chunked"), "header", 0},
	{"CL.CL", asHTTP(ada, "Content-Length: 2"), "header", 0},
	{"CL.CL that agree", asHTTP(ada, "Content-Length: 14"), "header", 1},
	{"a list of lengths", strings.Replace(asHTTP(ada), ": 14", ": 14, 14", 1), "header", 0},
	{"a signed length", strings.Replace(asHTTP(ada), ": 14", ": +14", 1), "header", 0},
	{"a padded length", strings.Replace(asHTTP(ada), ": 14", ": 0014", 1), "header", 1},
	{"a folded line", asHTTP(ada, "X: y", " Transfer-Encoding: chunked"), "header", 1},
	{"a folded first line", strings.Replace(asHTTP(ada), "Host", " Host", 1), "header", 0},
	{"bare LF", strings.ReplaceAll(asHTTP(ada), "\r\n", "\n"), "other_request", 1},
	{"one bare LF", asHTTP(ada, "X: y\nY: z"), "header", 1},
	{"an end with bare LF", strings.Replace(asHTTP(ada), "\r\n\r\n", "\r\n\n", 1), "header", 1},
	{"bare CR", asHTTP(ada, "X: y\rTransfer-Encoding: chunked"), "header", 0},
	{"NUL", asHTTP(ada, "X: y\x00"), "header", 0},
	{"a letter beyond ASCII", asHTTP(ada, "X: \xe9"), "header", 1},
	{"a tab", asHTTP(ada, "X:\ty"), "header", 1},
	{"no colon", asHTTP(ada, "X"), "header", 0},
	{"two hosts", asHTTP(ada, "Host: localhost"), "header", 0},
	{"no host", strings.Replace(asHTTP(ada), "Host: localhost:8080\r\n", "", 1), "header", 0},
	{"an empty host", strings.Replace(asHTTP(ada), "localhost:8080", "", 1), "header", 0},
	{"another host", strings.Replace(asHTTP(ada), "localhost:8080", "evil.test", 1), "", 0},
	{"absolute form", strings.Replace(asHTTP(ada), "/ratelimit", "http://localhost/ratelimit", 1), "other_request", 1},
	{"absolute form, another host", strings.Replace(asHTTP(ada), "/ratelimit", "http://evil.test/ratelimit", 1),
		"other_request", 0},
	{"two slashes", strings.Replace(asHTTP(ada), "/ratelimit", "//ratelimit", 1), "other_request", 0},
	{"a query", strings.Replace(asHTTP(ada), "/check", "/check?x", 1), "other_request", 1},
	{"an escape", strings.Replace(asHTTP(ada), "/check", "/%63heck", 1), "other_request", 0},
	{"small letters", strings.Replace(asHTTP(ada), "POST", "post", 1), "other_request", 0},
	{"another method", strings.Replace(asHTTP(ada), "POST", "PUT", 1), "other_request", 0},
	{"HTTP/1.0", strings.Replace(asHTTP(ada), "HTTP/1.1", "HTTP/1.0", 1), "other_request", 1},
	{"HTTP/1.2", strings.Replace(asHTTP(ada), "HTTP/1.1", "HTTP/1.2", 1), "other_request", 1},
	{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "other_request", 0},
	{"another protocol", "\x16\x03\x01\x02\x00\x01", "other_request", 0},
	{"no length", strings.Replace(asHTTP(ada), "Content-Length: 14\r\n", "", 1), "header", 0},
	{"length 0", strings.Replace(asHTTP(""), ada, "", 1) + asHTTP(ada), "", 1},
	{"too large", strings.Replace(asHTTP(ada), ": 14", ": 65537", 1), "size", 0},
	{"far too large", strings.Replace(asHTTP(ada), ": 14", ": 99999999999999999999", 1), "header", 0},
	{"the largest", asHTTP(ada + strings.Repeat(" ", maxBody-len(ada))), "", 1},
	{"close", asHTTP(ada, "Connection: close") + asHTTP(ada), "header", 1},
	{"upgrade", asHTTP(ada, "Connection: Upgrade", "Upgrade: websocket"), "header", 1},
	{"h2c", asHTTP(ada, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAM"), "header", 1},
	{"100-continue", asHTTP(ada, "Expect: 100-continue"), "header", 1},
	{"another expectation", asHTTP(ada, "Expect: tea"), "header", 0},
	{"compressed", asHTTP(ada, "Content-Encoding: gzip"), "header", 0},
	{"text", strings.Replace(asHTTP(ada), "application/json", "text/plain", 1), "header", 0},
	{"no type", strings.Replace(asHTTP(ada), "Content-Type: application/json\r\n", "", 1), "header", 0},
	{"two types", asHTTP(ada, "Content-Type: application/json"), "header", 0},
	{"another site", asHTTP(ada, "Origin: https://evil.test"), "header", 0},
	{"another site, by its mark", asHTTP(ada, "Sec-Fetch-Site: cross-site"), "header", 0},
	{"forwarded", asHTTP(ada, "X-Forwarded-For: 192.0.2.1"), "", 0},
	{"how long it waits", asHTTP(ada, "Sluice-Timeout-Ms: 250"), "", 1},
	{"how long it waits, but no number", asHTTP(ada, "sluice-timeout-ms: 25ms"), "header", 0},
	{"how long it waits, twice", asHTTP(ada, "Sluice-Timeout-Ms: 250", "Sluice-Timeout-Ms: 250"), "header", 0},
	{"many headers", asHTTP(ada, slices.Repeat([]string{"X: y"}, 40)...), "size", 1},
	{"a long header", asHTTP(ada, "X: "+strings.Repeat("y", 9000)), "size", 1},
	{"a body that is no JSON", asHTTP("{") + asHTTP(ada), "", 1},
	{"a body that is invalid", asHTTP(`{"weight":-1}`) + asHTTP(ada), "", 1},
	{"a body with a request", asHTTP(asHTTP(ada)) + asHTTP(ada), "", 1},
}

// packets are how many bytes of an input arrive at a time. That any byte may be the last to arrive is seen with the
// short inputs, and takes long with the others.
func packets(input string) []int {
	if len(input) > 2000 {
		return []int{len(input), 997}
	}
	return []int{len(input), 1, 7}
}

func TestPlain_NothingIsSmuggled(t *testing.T) {
	for _, tt := range smuggled {
		t.Run(tt.name, func(t *testing.T) {
			for _, packet := range packets(tt.input) {
				w := newTwins(t, false)
				answers, calls := w.send(tt.input, packet)
				if calls != tt.calls {
					t.Errorf("%d checks were decided, want %d: %s", calls, tt.calls, answers)
				}
				counts := w.on.counts
				if tt.reason != "" && counts[tt.reason] != 1 || tt.reason == "" && len(counts) > 1 {
					t.Errorf("in packets of %d: counted %v", packet, counts)
				}
			}
		})
	}
}

// With a token, nobody is in open mode.
func TestPlain_TokensDecideAsWithNetHTTP(t *testing.T) {
	w := newTwins(t, true)
	for want, lines := range map[string][]string{
		"200": {"Authorization: Bearer SECRET"}, "200 ": {"authorization:bearer   SECRET", "Via: x"},
		"401": {"Authorization: Bearer slk_x"}, "401 ": {"Authorization: Basic SECRET"}, "401  ": nil,
		"401   ": {"Authorization:"}, "401    ": {"Authorization: Bearer SECRET", "Authorization: Bearer SECRET"},
		"401     ": {"X-Authorization: Bearer SECRET"},
	} {
		answers, _ := w.send(asHTTP(ada, lines...), 512)
		if !strings.HasPrefix(answers, "HTTP/1.1 "+strings.TrimSpace(want)) {
			t.Errorf("%q got %s", lines, answers)
		}
	}
}

// pieces are what mutations consist of.
var pieces = func() (out []string) {
	for _, tt := range smuggled {
		if len(tt.input) < 2000 {
			out = append(out, tt.input)
		}
	}
	return append(out, asHTTP(ada, "Authorization: Bearer SECRET"), asHTTP(`{"user":"eve","weight":9}`),
		asHTTP(`{"key":"k","limit":1,"window_ms":1000}`), asHTTP(`{"limits":[{"key":"k","limit":1,"window_ms":1000}]}`),
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
}()

// FuzzPlain sends the same bytes to both and wants the same answers.
func FuzzPlain(f *testing.F) {
	for _, piece := range pieces {
		f.Add([]byte(piece), uint16(len(piece)))
		f.Add([]byte(asHTTP(ada)+piece), uint16(1))
	}
	open, secured := newTwins(f, false), newTwins(f, true)
	f.Fuzz(func(t *testing.T, input []byte, packet uint16) {
		if strings.Contains(string(input), "/ratelimit/r") {
			return // rules and pools would differ from one input to the next
		}
		for _, w := range []*twins{open, secured} {
			w.t = t
			w.send(string(input), int(packet))
		}
	})
}

// TestPlain_AgreesWithNetHTTPOnMutations is a bounded part of FuzzPlain.
func TestPlain_AgreesWithNetHTTPOnMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 2))
	w := newTwins(t, false)
	for i := range 3000 {
		if i%100 == 0 { // other users, so that some are allowed
			w = newTwins(t, i%200 == 0)
		}
		var input []byte
		for range 1 + rng.IntN(3) {
			input = append(input, pieces[rng.IntN(len(pieces))]...)
		}
		for range rng.IntN(3) {
			at := rng.IntN(len(input))
			switch rng.IntN(3) {
			case 0:
				input[at] = "\r\n\x00 :\t,;0Aa"[rng.IntN(11)]
			case 1:
				input = slices.Delete(input, at, min(len(input), at+1+rng.IntN(4)))
			case 2:
				other := pieces[rng.IntN(len(pieces))]
				input = slices.Insert(input, at, []byte(other[:min(20, len(other))])...)
			}
			if len(input) == 0 {
				break
			}
		}
		w.send(string(input), 1+rng.IntN(len(input)+1))
	}
}
