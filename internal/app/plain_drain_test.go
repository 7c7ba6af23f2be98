package app

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// While clients send without a pause, a drain drops no request: a connection ends after an answer that said so, or
// between requests that the server has not seen.
func TestPlain_DrainUnderLoadDropsNothing(t *testing.T) {
	s := newSecured(t)
	for name, w := range s.ways() {
		t.Run(name, func(t *testing.T) {
			p := startPlain(t, w, time.Minute)
			var clients sync.WaitGroup
			var answered atomic.Int64
			for i := range 32 {
				c, _ := w.dial(t, s, p)
				request := plainCheck("quick")
				if i%4 == 3 { // these are net/http's
					request = strings.Replace(request, "Host", "Expect: 100-continue\r\nHost", 1)
				}
				clients.Go(func() {
					from := bufio.NewReader(c)
					for {
						if _, err := io.WriteString(c, request); err != nil {
							t.Errorf("a request after an answer that kept the connection: %v", err)
							return
						}
						res, err := http.ReadResponse(from, nil)
						if err == nil && res.StatusCode == http.StatusContinue {
							res, err = http.ReadResponse(from, nil)
						}
						if err != nil {
							t.Errorf("no answer: %v", err)
							return
						}
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
						answered.Add(1)
						if res.Close {
							return
						}
					}
				})
			}
			eventually(t, "all are busy", func() bool { return answered.Load() > 1000 })
			if err := p.drain(); err != nil {
				t.Error(err)
			}
			clients.Wait()
			if p.count("checks") == 0 || p.count("header") == 0 {
				t.Errorf("%d plain checks, %d handovers", p.count("checks"), p.count("header"))
			}
		})
	}
}

func TestPlain_DrainFinishesAndClosesIdleConnections(t *testing.T) {
	eachWay(t, inTurn, time.Minute, func(t *testing.T, p *plainNode) {
		idle := connect(t, p.addr, plainCheck("quick"))
		hear(t, bufio.NewReader(idle), "quick")
		busy := connect(t, p.addr, plainCheck("slow"))
		<-p.checks
		closed := make(chan error, 1)
		go func() { closed <- p.drain() }()
		ended(t, idle)
		p.finish <- "decided"
		res, err := http.ReadResponse(bufio.NewReader(busy), nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if !res.Close {
			t.Error("an answer during a drain keeps the connection")
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// A few bytes after a response, such as a line break, are no request: a drain closes the connection, whoever reads it.
func TestPlain_DrainClosesConnectionsWithAFewBytesLeft(t *testing.T) {
	for name, first := range map[string]string{"plain": plainCheck("quick"), "loop": plainCheck("quick"),
		"net/http": "POST /other HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nquick"} {
		for _, later := range []string{"", "\r\n", "\r\n\n", "P"} {
			for _, at := range []string{"", "\r\n"} {
				if at != "" && (name == "net/http" || later == "\r\n\n") { // it reads them with the request; these are too many
					continue
				}
				t.Run(fmt.Sprintf("%s %q %q", name, at, later), func(t *testing.T) {
					t.Parallel()
					loops := name == "loop"
					p := startPlain(t, way{loops: loops}, time.Minute)
					idle := connect(t, p.addr, first+at)
					res, err := http.ReadResponse(bufio.NewReader(idle), nil)
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					eventually(t, "the connection is idle", func() bool { return loops || p.missing() == leastRequest })
					say(t, idle, later)
					eventually(t, "the bytes are read", func() bool { return loops || p.missing() == leastRequest-len(later) })
					go p.drain() // its error is that of the end of the test
					ended(t, idle)
				})
			}
		}
	}
}

// missing is how many bytes are missing from the beginning of a request on the only connection.
func (p *plainNode) missing() int {
	p.listener.mu.Lock()
	defer p.listener.mu.Unlock()
	few := -1
	for c := range p.listener.conns {
		c.mu.Lock()
		few = c.few
		c.mu.Unlock()
	}
	return few
}

// During a drain every request that has arrived on a connection is answered, and only the last answer says that the
// connection is closed.
func TestPlain_DrainAnswersAllThatArrived(t *testing.T) {
	s := newSecured(t)
	for name, w := range s.ways() {
		for _, later := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " later ", later), func(t *testing.T) {
				p := startPlain(t, w, time.Minute)
				c, _ := w.dial(t, s, p)
				first, rest := plainCheck("decided"), strings.Repeat(plainCheck("quick"), 9)
				if later {
					say(t, c, first)
					<-p.checks
					say(t, c, rest)
				} else {
					say(t, c, first+rest) // more than is read at once
					<-p.checks
				}
				closed := make(chan error, 1)
				go func() { closed <- p.drain() }()
				eventually(t, "it drains", p.readiness.draining.Load)
				p.finish <- "decided"
				from := bufio.NewReader(c)
				for i := range 10 {
					res, err := http.ReadResponse(from, nil)
					if err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if last := i == 9; res.Close != last {
						t.Errorf("answer %d closes: %v", i, res.Close)
					}
				}
				if err := <-closed; err != nil {
					t.Error(err)
				}
				if n := p.count("checks"); n != 10 {
					t.Errorf("%d checks", n)
				}
			})
		}
	}
}
