package home

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/region"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/rules/match"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

// place is a region of one node: its store, and what other regions ask it.
type place struct {
	*Store
	receiver *Receiver
	inner    limiter.Store
	server   *httptest.Server
	sets     *match.Current
	mu       sync.Mutex
	cut      map[string]bool
	reasons  map[string]int
	messages int
	loses    bool // it carries messages out and answers with an error of a proxy
}

func (p *place) loseAnswers(loses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loses = loses
}

func (p *place) isCut(region string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut[region]
}

func (p *place) observe(_, reason string, _ time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reasons[reason]++
}

func (p *place) count(reason string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reasons[reason]
}

// ServeHTTP takes a message as the API does.
func (p *place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.messages++
	loses := p.loses
	p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Header.Get("Authorization") != "Bearer token" || r.Header.Get("Content-Type") != MediaType {
		refuse(w, http.StatusUnauthorized, "")
		return
	}
	answer, err := p.receiver.Receive(r.Context(), body)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	if loses {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	_, _ = w.Write(answer)
}

// refuse answers with a problem document, as the API does.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"type": "/problems/refused", "detail": detail}) // its test fails
}

// memoryLink carries messages between regions without sockets, so that a test can run in virtual time.
type memoryLink struct {
	places map[string]*place
	// delay is the time of a message one way, and loses reports whether the answer to one is lost; nil for never.
	delay func() time.Duration
	loses func(*message) bool
	wg    sync.WaitGroup // of messages under way
}

// RoundTrip carries one message and its answer.
func (l *memoryLink) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(r.Context()); trace != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	there := r.Clone(context.WithoutCancel(r.Context()))
	there.Body = io.NopCloser(bytes.NewReader(body))
	answer, done := httptest.NewRecorder(), make(chan struct{})
	l.wg.Go(func() {
		defer close(done)
		<-time.After(l.delay())
		l.places[r.URL.Host].ServeHTTP(answer, there)
		<-time.After(l.delay())
	})
	select {
	case <-done:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if l.loses != nil {
		if m, err := decode(body); err == nil && l.loses(m) {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return answer.Result(), nil
}

// world makes regions over stores of their own. All keys have homes.
func world(t testing.TB, timeout time.Duration, stores map[string]limiter.Store) map[string]*place {
	t.Helper()
	return worldOver(t, timeout, stores, nil)
}

// worldOver makes regions whose messages go over a link in memory, or over sockets without one.
func worldOver(t testing.TB, timeout time.Duration, stores map[string]limiter.Store,
	memory *memoryLink) map[string]*place {
	t.Helper()
	places := map[string]*place{}
	address := func(to string) string { return places[to].server.URL }
	if memory != nil {
		t.Cleanup(memory.wg.Wait)
		memory.places, address = places, func(to string) string { return "http://" + to }
	}
	for name, inner := range stores {
		p := &place{inner: inner, sets: &match.Current{}, cut: map[string]bool{}, reasons: map[string]int{}}
		if memory == nil {
			p.server = httptest.NewServer(p)
			t.Cleanup(p.server.Close)
		}
		places[name] = p
	}
	for name, p := range places {
		client := &http.Client{Transport: memory}
		if memory == nil {
			client.Transport = &http.Transport{MaxIdleConnsPerHost: maxMessages}
			t.Cleanup(client.CloseIdleConnections)
		}
		opt := Options{Self: name, Prefix: "sl:", Store: p.inner, Sets: p.sets, Client: client,
			Token: func() string { return "token" }, CutOff: p.isCut, Timeout: timeout, Local: timeout, Observe: p.observe,
			Now: time.Now}
		var others []string
		for to := range places {
			if to != name {
				opt.Peers = append(opt.Peers, region.Peer{Name: to, Addresses: []string{address(to)}})
				others = append(others, to)
			}
		}
		var err error
		if p.Store, err = New(opt); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close(context.Background()) })
		if p.receiver, err = NewReceiver(ReceiverOptions{Self: name, Others: others, Prefix: "sl:", Store: p.Store,
			Sets: p.sets, Timeout: timeout, Now: time.Now}); err != nil {
			t.Fatal(err)
		}
		p.exact = func(*match.Set, limiter.Key) bool { return true }
		p.receiver.check = func(_ *match.Set, req *limiter.Request) error { return req.Check() }
	}
	return places
}

// onRedis is a store on a Redis, on the given clock.
func onRedis(t testing.TB, server *testenv.RedisServer, clock func() int64) limiter.Store {
	t.Helper()
	client, err := redisstore.NewClient(server.URL(),
		redisstore.ClientOptions{DialTimeout: 10 * time.Second, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(redisstore.Options{Client: client, Clock: clock, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
