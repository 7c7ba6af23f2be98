package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// answer is the answer of the server to each request of one case.
type answer struct {
	title  string // the head of the column
	method string
	status int
	after  string // Retry-After, empty for none
}

// server denies each request and notes when it came. The first part of the path names the call it belongs to.
type server struct {
	http *httptest.Server

	mu    sync.Mutex
	calls map[string]*call
}

// call is one call of one client.
type call struct {
	answer answer
	first  chan struct{} // closed at the first request
	times  []time.Time
}

func serve() *server {
	s := &server{calls: map[string]*call{}}
	s.http = httptest.NewServer(s)
	return s
}

// expect returns the record of a call and the URL that belongs to it.
func (s *server) expect(a answer) (c *call, url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c = &call{answer: a, first: make(chan struct{})}
	name := fmt.Sprintf("call-%d", len(s.calls))
	s.calls[name] = c
	return c, s.http.URL + "/" + name
}

// requests returns when the requests of a call came.
func (s *server) requests(c *call) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), c.times...)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.mu.Lock()
	c := s.calls[name]
	if c != nil {
		if c.times = append(c.times, now); len(c.times) == 1 {
			close(c.first)
		}
	}
	s.mu.Unlock()
	if c == nil {
		http.NotFound(w, r)
		return
	}
	h, kind := w.Header(), "quota-exceeded"
	if c.answer.status == http.StatusServiceUnavailable {
		kind = "temporary-reduced-capacity"
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("RateLimit-Policy", `"per-minute";q=100;w=60`)
	if c.answer.after != "" {
		h.Set("Retry-After", c.answer.after)
	}
	w.WriteHeader(c.answer.status)
	_, _ = fmt.Fprintf(w, `{"type":"https://iana.org/assignments/http-problem-types#%s","status":%d}`, kind, c.answer.status)
}
