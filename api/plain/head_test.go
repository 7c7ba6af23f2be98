package plain

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/api/reply"
	"sluice/internal/access"
)

const mostBody = 64 << 10

// request builds a request with the usual headers, others behind them, and a body.
func request(body string, lines ...string) string {
	return requestLine + "Host: sluice:8080\r\nContent-Type: application/json\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n", len(body)) + strings.Join(append(lines, "", ""), "\r\n") + body
}

const body = `{"user":"42"}`

// seeds are requests near every branch of the reader. Those that begin with a + are plain.
var seeds = []string{
	"+" + request(body),
	"+" + request(""),
	"+" + request(body, "Authorization: Bearer slk_x"),
	"+" + request(body, "Authorization:"),
	"+" + request(body, "Connection: Keep-Alive", "User-Agent: curl/8", "Accept: */*", "X-Empty:"),
	"+" + request(body, "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2", "Via: 1.1 proxy"),
	"+" + request(body, "Sluice-Timeout-Ms: 1"), "+" + request(body, "sluice-timeout-ms:1000 "),
	"+" + request(body, "Cookie: a=b", "Cookie: c=d", "X-Api-Key:   blank  "),
	"+" + request(body) + request(body),
	"+" + request(body) + "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	"+" + request(body) + "rubbish",
	"+POST /ratelimit/check HTTP/1.1\r\nhost:[::1]:8080\r\nCONTENT-TYPE: application/json; charset=UTF-8\r\n" +
		"content-length:0\r\n\r\n",
	"GET /ratelimit/check HTTP/1.1\r\nHost: x\r\n\r\n",
	"post /ratelimit/check HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n",
	"POST /ratelimit/check HTTP/1.0\r\nHost: x\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n",
	"POST http://x/ratelimit/check HTTP/1.1\r\nHost: y\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n",
	"POST //ratelimit/check HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n",
	"POST /ratelimit/check? HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n",
	"POST /ratelimit/check/batch HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n",
	"POST  /ratelimit/check HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Type: application/json\r\n\r\n",
	"POST /ratelimit/check HTTP/1.1\nHost: x\nContent-Length: 0\nContent-Type: application/json\n\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\r\n" + request(body), "\x16\x03\x01\x02\x00\x01",
	request(body, "Transfer-Encoding: chunked"), request(body, "Transfer-Encoding : chunked"),
	request(body, "transfer-encoding: identity"), request(body, "Content-Length: 13"), request(body, "Content-Length: 5"),
	request(body, "Content-Length : 13"), request(body, " Content-Length: 13"), request(body, "Host: other"),
	request(body, "Host : other"), request(body, "Authorization: a", "Authorization: b"),
	request(body, "Content-Type: application/json"), request(body, "Connection: close"),
	request(body, "Connection: keep-alive, Upgrade"), request(body, "Connection: keep-alive", "Connection: keep-alive"),
	request(body, "Upgrade: h2c"), request(body, "Expect: 100-continue"), request(body, "Expect:"),
	request(body, "Sluice-Timeout-Ms: 0"), request(body, "Sluice-Timeout-Ms: 1001"), request(body, "Sluice-Timeout-Ms:"),
	request(body, "Sluice-Timeout-Ms: 1", "Sluice-Timeout-Ms: 1"), request(body, "Sluice-Timeout-Ms: +1"),
	request(body, "Trailer: x"), request(body, "TE: trailers"), request(body, "Content-Encoding: gzip"),
	request(body, "Origin: https://evil.test"), request(body, "Sec-Fetch-Site: cross-site"),
	request(body, "HTTP2-Settings: AAMAAABkAAQAAP__"), request(body, "X-Folded: a", " b"),
	request(body, "X-Folded: a", "\tb"),
	request(body, "X-Nul: a\x00b"), request(body, "X-Tab: a\tb"), request(body, "X-Latin: \xe9"),
	request(body, "X-CR: a\rb"),
	request(body, "X-LF: a\nContent-Length: 0"), request(body, ": empty"), request(body, "no colon"),
	request(body, "X(: y"),
	request(body, "X-Ü: y"),
	strings.Replace(request(body), "application/json", "text/plain", 1),
	strings.Replace(request(body), "application/json", "application/json; charset=latin1", 1),
	strings.Replace(request(body), "application/json", "", 1),
	strings.Replace(request(body), "sluice:8080", "", 1), strings.Replace(request(body), "sluice:8080", "a,b", 1),
	strings.Replace(request(body), "sluice:8080", "a/b", 1),
	strings.Replace(request(body), "Host: sluice:8080\r\n", "", 1),
	strings.Replace(request(body), ": 13", ": +13", 1), strings.Replace(request(body), ": 13", ": 013", 1),
	strings.Replace(request(body), ": 13", ": 0x0d", 1), strings.Replace(request(body), ": 13", ": 13,13", 1),
	strings.Replace(request(body), ": 13", ": 13 13", 1), strings.Replace(request(body), ": 13", ": ", 1),
	strings.Replace(request(body), ": 13", ": -1", 1), strings.Replace(request(body), ": 13", ": 65537", 1),
	strings.Replace(request(body), ": 13", ": 99999999999999999999", 1),
	strings.Replace(request(body), "Content-Length: 13\r\n", "", 1),
	strings.Replace(request(body), "\r\n\r\n", "\n\n", 1), strings.Replace(request(body), "\r\n\r\n", "\r\n\n", 1),
	strings.Replace(request(body), "\r\n\r\n", "\r\r\n\r\n", 1), strings.ReplaceAll(request(body), "\r\n", "\n"),
	strings.ReplaceAll(request(body), "\r\n", "\r"),
	request(body, slices.Repeat([]string{"X: y"}, maxHeaders-2)...),
	request(body, "X-Long: "+strings.Repeat("x", maxHead)),
	request(body, slices.Repeat([]string{"X-Some: " + strings.Repeat("y", 300)}, 28)...),
}

func TestHead_TakesOnlyPlainRequests(t *testing.T) {
	for _, seed := range seeds {
		text, plain := strings.CutPrefix(seed, "+")
		var h head
		complete, why := h.read([]byte(text), mostBody)
		if complete != plain || plain && why != "" || !plain && why == "" {
			t.Errorf("%.300q: complete %v, %q", text, complete, why)
		}
		if why != "" && !slices.Contains(Reasons(), why) {
			t.Errorf("%q is no reason", why)
		}
		holdToNetHTTP(t, []byte(text), len(text)/2)
	}
}

func TestHead_BoundsArePartOfIt(t *testing.T) {
	full := request("", slices.Repeat([]string{"X: y"}, maxHeaders-3)...)
	largest := request("", "X: "+strings.Repeat("y", maxHead-len(request("", "X: "))))
	for _, text := range []string{full, largest} {
		var h head
		if complete, why := h.read([]byte(text), mostBody); !complete || h.size != len(text) {
			t.Errorf("%d bytes: complete %v, %q", len(text), complete, why)
		}
		if _, why := h.read([]byte(strings.Replace(text, "X: y", "X: y\r\nX: y", 1)), mostBody); why != tooLarge {
			t.Errorf("%d bytes and one more header: %q", len(text), why)
		}
	}
	var h head
	if complete, why := h.read([]byte(strings.Replace(request(""), ": 0", ": 65536", 1)), mostBody); !complete {
		t.Errorf("the largest body: %q", why)
	}
}

// holdToNetHTTP compares the reader with net/http. What the reader takes, net/http takes too, with the same meaning and
// the same bytes. What it refuses, it has refused or not yet decided at any earlier byte, and the other way round.
func holdToNetHTTP(t *testing.T, data []byte, cut int) {
	t.Helper()
	var h, early head
	complete, why := h.read(data, mostBody)
	if complete && why != "" {
		t.Fatalf("%.300q is complete and refused: %s", data, why)
	}
	done, earlyWhy := early.read(data[:cut], mostBody)
	switch {
	case earlyWhy != "" && why == "":
		t.Fatalf("%.300q is refused after %d bytes: %s", data, cut, earlyWhy)
	case done && (!complete || early.size != h.size || early.body != h.body):
		t.Fatalf("%.300q is another request after %d bytes", data, cut)
	}
	if !complete || len(data) < h.size+h.body {
		return
	}
	from := bufio.NewReader(bytes.NewReader(data))
	r, err := http.ReadRequest(from)
	if err != nil {
		t.Fatalf("%.300q: net/http refuses it: %v", data, err)
	}
	text, err := io.ReadAll(r.Body)
	if err != nil || !bytes.Equal(text, data[h.size:h.size+h.body]) {
		t.Fatalf("%.300q: net/http reads the body %q, %v", data, text, err)
	}
	rest, err := io.ReadAll(from)
	if err != nil || !bytes.Equal(rest, data[h.size+h.body:]) {
		t.Fatalf("%.300q: net/http leaves %q, %v", data, rest, err)
	}
	forwarded := slices.ContainsFunc(access.ForwardingHeaders(), func(name string) bool { return len(r.Header[name]) > 0 })
	credentials := r.Header["Authorization"]
	if r.Method != http.MethodPost || r.RequestURI != "/ratelimit/check" || r.Proto != "HTTP/1.1" || r.Close ||
		r.TransferEncoding != nil || r.Trailer != nil || r.Host != string(h.host) || forwarded != h.forwarded ||
		(len(credentials) > 0) != h.authorized || h.authorized && (len(credentials) != 1 ||
		credentials[0] != string(h.authorization)) {
		t.Fatalf("%.300q: net/http reads %+v, we %+v", data, r, h)
	}
	for _, name := range []string{"Expect", "Upgrade", "Origin", "Sec-Fetch-Site", "Content-Encoding"} {
		if len(r.Header[name]) > 0 {
			t.Fatalf("%.300q has the header %s", data, name)
		}
	}
	if wait, err := reply.TimeoutIn(r.Header); err != nil || wait != h.timeout {
		t.Fatalf("%.300q: net/http reads a wait of %s, %v, we %s", data, wait, err, h.timeout)
	}
	types := r.Header["Content-Type"]
	if len(types) != 1 || !strings.HasPrefix(strings.ToLower(types[0]), "application/json") {
		t.Fatalf("%.300q has the content type %q", data, types)
	}
}

// FuzzHead holds the reader to http.ReadRequest.
func FuzzHead(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(strings.TrimPrefix(seed, "+")), uint16(len(seed)/2))
	}
	f.Fuzz(func(t *testing.T, data []byte, cut uint16) { holdToNetHTTP(t, data, min(int(cut), len(data))) })
}

// TestHead_AgreesWithNetHTTPOnMutations is a bounded part of FuzzHead.
func TestHead_AgreesWithNetHTTPOnMutations(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	taken := 0
	for range 30_000 {
		data := mutate(rng)
		holdToNetHTTP(t, data, rng.IntN(len(data)+1))
		var h head
		if complete, _ := h.read(data, mostBody); complete {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d mutations are plain", taken)
	}
}

// mutate returns a request that differs in a few places from one of the seeds.
func mutate(rng *rand.Rand) []byte {
	pick := func() string { return strings.TrimPrefix(seeds[rng.IntN(len(seeds))], "+") }
	data := []byte(pick())
	for range rng.IntN(4) {
		at := rng.IntN(len(data) + 1)
		switch rng.IntN(5) {
		case 0: // a byte
			if at < len(data) {
				data[at] = byte(rng.IntN(256))
			}
		case 1: // a byte that means something
			data = slices.Insert(data, at, "\r\n\x00 :\t,;0\x7f\x80"[rng.IntN(11)])
		case 2: // a line of another
			lines := strings.SplitAfter(pick(), "\n")
			at = bytes.IndexByte(data[at:], '\n') + at + 1
			data = slices.Insert(data, at, []byte(lines[rng.IntN(len(lines))])...)
		case 3: // less
			data = slices.Delete(data, at, min(len(data), at+rng.IntN(8)))
		case 4: // another case
			if at < len(data) && (data[at]|0x20) >= 'a' && (data[at]|0x20) <= 'z' {
				data[at] ^= 0x20
			}
		}
	}
	return data
}

func BenchmarkHead(b *testing.B) {
	for name, lines := range map[string][]string{"usual": nil, "ten more": {"Authorization: Bearer slk_" +
		strings.Repeat("x", 43), "User-Agent: gateway/1.0", "Accept: */*", "X-Request-Id: 0123456789abcdef",
		"X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: https", "X-B3-Traceid: 80f198ee56343ba864fe8b2a57d3eff7",
		"X-B3-Spanid: e457b5a2e4d86bd1", "X-B3-Sampled: 1", "Accept-Language: en"}} {
		b.Run(name, func(b *testing.B) {
			data := []byte(request(body, lines...))
			var h head
			for b.Loop() {
				if complete, why := h.read(data, mostBody); !complete {
					b.Fatal(why)
				}
			}
		})
	}
}
