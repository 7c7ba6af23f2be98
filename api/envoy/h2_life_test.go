package envoy

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
)

// TestLoop_SaysTwiceToMoveOn: calls that come before the client knows are answered, later ones are not, and the
// connection ends with the last answer.
func TestLoop_SaysTwiceToMoveOn(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	entered, leave := make(chan struct{}, 3), make(chan struct{})
	f.store.fault = func(ctx context.Context) error {
		entered <- struct{}{}
		<-leave
		return gone(ctx)
	}
	c := f.raw()
	c.ask(1, "a")
	<-entered
	idle := f.raw()
	idle.settle("settings")
	closed := make(chan error, 1)
	go func() { closed <- f.server.Close(context.Background()) }()
	for len(c.said) == 0 && c.read() {
	}
	if got := c.heard(); got != "goaway NO_ERROR graceful_stop" || c.last != maxWindow {
		t.Errorf("it says %q up to %d", got, c.last)
	}
	c.ask(3, "b") // the ping that follows is answered by read
	for len(c.said) == 0 && c.read() {
	}
	if got := c.heard(); got != "goaway NO_ERROR graceful_stop" || c.last != 3 {
		t.Errorf("it says %q up to %d", got, c.last)
	}
	if c.pings != 1 {
		t.Errorf("%d pings", c.pings)
	}
	c.ask(5, "c")
	for idle.read() {
	}
	if got := idle.heard(); got != strings.Repeat("goaway NO_ERROR graceful_stop\n", 2)+"closed" {
		t.Errorf("an idle connection says %q", got)
	}
	close(leave)
	for c.read() {
	}
	got := c.heard()
	if strings.Count(got, "grpc-status=0") != 2 || strings.Contains(got, "5: ") || !strings.HasSuffix(got, "\nclosed") {
		t.Errorf("it says %q", got)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// written is a connection that says when a write begins.
type written struct {
	net.Conn
	begun chan struct{} // holds a token after the first
}

func (c *written) Write(b []byte) (int, error) {
	select {
	case c.begun <- struct{}{}:
	default:
	}
	return c.Conn.Write(b)
}

// piped starts a connection of the loop over a pipe, with the client's end.
func (f *fixture) piped() (*h2conn, net.Conn, <-chan struct{}) {
	f.t.Helper()
	client, pipe := net.Pipe()
	end := &written{pipe, make(chan struct{}, 1)}
	f.t.Cleanup(func() { _ = client.Close() })
	if err := client.SetDeadline(time.Now().Add(patience)); err != nil {
		f.t.Fatal(err)
	}
	before := f.server.loop.all()
	f.server.loop.start(end)
	for _, c := range f.server.loop.all() {
		if !slices.Contains(before, c) {
			return c, client, end.begun
		}
	}
	f.t.Fatal("no connection")
	return nil, nil, nil
}

// TestLoop_AsksWhetherTheClientIsThere, and closes the connection of one that does not answer.
func TestLoop_AsksWhetherTheClientIsThere(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c, client, _ := f.piped()
	framer := http2.NewFramer(client, client)
	next := func() http2.Frame {
		t.Helper()
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		return frame
	}
	next() // settings
	if _, err := client.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := framer.WritePing(false, [8]byte{}); err != nil { // whose answer says that the settings were read
		t.Fatal(err)
	}
	next()
	pass := func(d time.Duration) {
		c.mu.Lock()
		c.heard = c.heard.Add(-d)
		if !c.asked.IsZero() {
			c.asked = c.asked.Add(-d)
		}
		c.mu.Unlock()
		go c.age()
	}
	pass(pingInterval)
	if ping, ok := next().(*http2.PingFrame); !ok || ping.IsAck() {
		t.Fatalf("got %v", ping)
	}
	if err := framer.WritePing(true, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	if err := framer.WritePing(false, [8]byte{}); err != nil { // whose answer says that the other was read
		t.Fatal(err)
	}
	next()
	pass(pingInterval)
	if ping, ok := next().(*http2.PingFrame); !ok || ping.IsAck() {
		t.Fatalf("got %v", ping)
	}
	pass(pingTimeout)
	if frame, err := framer.ReadFrame(); err == nil {
		t.Errorf("got %v, want the end", frame)
	}
	<-c.ctx.Done()
}

// TestLoop_ClosesConnectionsThatAreNotRead after writeLimit.
func TestLoop_ClosesConnectionsThatAreNotRead(t *testing.T) {
	f := newFixture(t, byLoop, perUser(5))
	c, _, begun := f.piped() // whose client reads no settings
	<-begun
	c.look(time.Now().Add(writeLimit / 2))
	if c.ctx.Err() != nil {
		t.Error("it is closed too early")
	}
	c.look(time.Now().Add(writeLimit + time.Second))
	<-c.ctx.Done()
}

// boomRule is a rule of the domain at which counter panics.
func boomRule() rules.Rule {
	r := rules.Rule{ID: 2, Name: "boom", Limit: 5, WindowMS: 60_000, IsActive: true, Version: 1}
	r.Descriptor = &rules.RuleDescriptor{Domain: "boom", Entries: []entries.Element{{Key: "u"}}}
	r.Normalize()
	return r
}

// TestLoop_APanicIsOfItsCall and not of those that are decided with it.
func TestLoop_APanicIsOfItsCall(t *testing.T) {
	f := newFixture(t, byLoop, append(perUser(5), boomRule()))
	c := f.raw()
	for i, domain := range []string{"api", "boom", "api", "boom"} {
		id := uint32(1 + 2*i)
		c.headers(id, false, c.call()...)
		c.data(id, true, prefixed(encode(t, &ratelimitv3.RateLimitRequest{Domain: domain,
			Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("u", "42")}})))
	}
	c.await(1, 3, 5, 7)
	got := c.heard()
	if strings.Count(got, "grpc-status=0") != 2 || strings.Count(got, "grpc-message=The error was logged. Try again. "+
		"grpc-status=13") != 2 || f.panicked.Load() != 2 || f.counted("ratelimit", "error") != 2 {
		t.Errorf("it says %q; %d panics", got, f.panicked.Load())
	}
}

// seeing is a store that shows its requests.
type seeing struct {
	limiter.Store
	see func(*limiter.Request)
}

func (s *seeing) Do(ctx context.Context, r *limiter.Request, res *limiter.Result) error {
	s.see(r)
	return s.Store.Do(ctx, r, res)
}

func (s *seeing) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		s.see(&calls[i].Request)
	}
	s.Store.DoAll(ctx, calls)
}

// TestLoop_TellsTheStoreWhoHasLeft, so that what it has not begun is not charged.
func TestLoop_TellsTheStoreWhoHasLeft(t *testing.T) {
	for domain, rs := range map[string][]rules.Rule{"api": perUser(5), "boom": {boomRule()}} {
		f := newFixture(t, byLoop, rs)
		asked, canceled := make(chan bool, 1), make(chan struct{})
		f.store.Store = &seeing{f.store.Store, func(r *limiter.Request) {
			asked <- r.Gone.Load()
			<-canceled
			asked <- r.Gone.Load()
		}}
		c := f.raw()
		c.headers(1, false, c.call()...)
		c.data(1, true, prefixed(encode(t, &ratelimitv3.RateLimitRequest{Domain: domain,
			Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("u", "42")}})))
		if <-asked {
			t.Errorf("%s: gone before it left", domain)
		}
		c.must(c.framer.WriteRSTStream(1, http2.ErrCodeCancel))
		c.settle("canceled")
		close(canceled)
		if !<-asked {
			t.Errorf("%s: not gone after it left", domain)
		}
		if got := c.heard(); got != "" {
			t.Errorf("%s: it says %q", domain, got)
		}
	}
}
