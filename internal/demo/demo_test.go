package demo_test

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/demo"
)

// playing is a demo in this process, and a person who is signed in.
type playing struct {
	t      *testing.T
	url    string
	out    *said
	client *http.Client
}

type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// play starts a demo whose first flood begins at once.
func play(t *testing.T, listen string) *playing {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &playing{t: t, out: &said{}, client: &http.Client{Jar: jar, Timeout: 20 * time.Second}}
	listening, ended := make(chan net.Addr, 1), make(chan error, 1)
	d := demo.Demo{Listener: config.Listener{Listen: listen, ResetHeader: "epoch"},
		Log: config.Log{LogLevel: "info", LogFormat: "text"}}
	host := app.Host{Out: p.out, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Listening: func(a net.Addr) { listening <- a }}
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- d.Run(ctx, host) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-listening:
		p.url = "http://" + a.String()
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return p
}

var welcomeLink = regexp.MustCompile(`/console/welcome\?token=(\S+)`)

// signIn creates the first account, an administrator.
func (p *playing) signIn() {
	p.t.Helper()
	found := welcomeLink.FindStringSubmatch(p.out.String())
	if found == nil {
		p.t.Fatalf("no sign-in link in %s", p.out)
	}
	const password = "a long demo password"
	page := p.post("/console/welcome", url.Values{"token": {found[1]}, "name": {"linus"}, "password": {password},
		"repeat": {password}})
	if !strings.Contains(page, "Overview") {
		p.t.Fatalf("after signing in: %s", page)
	}
}

func (p *playing) do(req *http.Request, err error) string {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %d, %v\n%s", req.URL, res.StatusCode, err, body)
	}
	return string(body)
}

func (p *playing) get(path string) string {
	p.t.Helper()
	return p.do(http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, http.NoBody))
}

func (p *playing) post(path string, form url.Values) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+path, strings.NewReader(form.Encode()))
	if err == nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return p.do(req, err)
}

// until asks for a page until it has a text so many times: the server plays the demo meanwhile.
func (p *playing) until(path, text string, times int) {
	p.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for strings.Count(p.get(path), text) < times {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s never says %q %d times:\n%s", path, text, times, p.get(path))
		}
	}
}

const flooder = "203.0.113.99"

func TestDemo_BeginsWithADayAndAFlood(t *testing.T) {
	p := play(t, "127.0.0.1:0")
	p.signIn()
	p.hasADay()
	for path, texts := range map[string][]string{
		"/console/traffic?range=24h":               {"logins-per-address", "charges-per-user", "What happened"},
		"/console/incidents":                       {"Node lacked CPU"},
		"/console/alerts":                          {"denied 112 of 149 requests"},
		"/console/rules/1":                         {"charges-per-user", "Enough evidence"},
		"/console/pools":                           {"spare-report-servers"},
		"/console/audit":                           {"The new search page asks several times at once."},
		"/console/denials?rule=logins-per-address": {flooder, "429, banned"},
		"/console/traffic?range=24h&by=key&rule=logins-per-address": {"ip:" + flooder},
	} {
		page := p.get(path)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s does not say %q", path, text)
			}
		}
	}
	p.until("/console/hot-keys", "ip:"+flooder, 1)
	p.until("/console/keys?rule=logins-per-address&key=ip:"+flooder, "Lift ban", 1)
	p.until("/console/alerts", "The key ip:"+flooder+" of the rule logins-per-address has been hot since", 1)
	p.until("/console/alerts", "The rule logins-per-address has denied many requests since", 1)
	p.until("/console/alerts", "The rule logins-per-address denied 112 of 149 requests (75%)", 1) // of the past
}

// hasADay wants every minute of the last day to be known on the page of traffic, a wave, and about three percent of
// denials.
func (p *playing) hasADay() {
	p.t.Helper()
	asked := time.Now().UTC().Truncate(time.Minute)
	points, err := csv.NewReader(strings.NewReader(p.get("/console/traffic.csv?of=series&range=24h"))).ReadAll()
	if err != nil || len(points) < 24 {
		p.t.Fatalf("%d points, %v", len(points), err)
	}
	column := func(name string) int { return slices.Index(points[0], name) }
	var allowed, denied, most int
	least := math.MaxInt
	for _, point := range points[1:] {
		if point[0] >= asked.Format(time.RFC3339) {
			continue // it runs, or is to come
		}
		a, err := strconv.Atoi(point[column("allowed")])
		d, deniedErr := strconv.Atoi(point[column("denied")])
		if err := errors.Join(err, deniedErr); err != nil {
			p.t.Fatalf("%v: %v", point, err)
		}
		allowed, denied, least, most = allowed+a, denied+d, min(least, a), max(most, a)
	}
	if share := float64(denied) / float64(allowed+denied); share < 0.025 || share > 0.04 {
		p.t.Errorf("%d of %d requests of a day are denied", denied, allowed+denied)
	}
	if most < 2*least || least == 0 {
		p.t.Errorf("between %d and %d requests, which is no wave", least, most)
	}
}

func TestDemo_TakesAFreePort(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := play(t, taken.Addr().String())
	if own := strings.TrimPrefix(p.url, "http://"); own == taken.Addr().String() || !strings.Contains(p.out.String(),
		fmt.Sprintf("Another program listens on %s, so the demo listens on %s.\n", taken.Addr(), own)) {
		t.Errorf("it listens on %s and says\n%s", own, p.out)
	}
	p.get("/readyz") // it serves
}
