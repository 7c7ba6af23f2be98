package envoy

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/health/grpc_health_v1"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
)

// runs is how many connections have users of their own. A call of grpc-go may still be decided after its connection has
// ended.
const runs = 1000

// spending is a store that counts how often each bucket was decided, by the connection.
type spending struct {
	limiter.Store
	mu    sync.Mutex
	times [runs]map[limiter.Key]int
}

// of returns the counts of a connection, and forgets those of the one before it with the same number.
func (s *spending) of(run int) map[limiter.Key]int {
	s.times[run] = map[limiter.Key]int{}
	return s.times[run]
}

func (s *spending) note(r *limiter.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range r.Asks {
		key := r.Asks[i].Key
		_, user, _ := strings.Cut(string(key), "user=")
		number, _, _ := strings.Cut(user, "-")
		if run, err := strconv.Atoi(number); err == nil && run < runs {
			s.times[run][key]++
		}
	}
}

func (s *spending) Do(ctx context.Context, r *limiter.Request, res *limiter.Result) error {
	s.note(r)
	return s.Store.Do(ctx, r, res)
}

func (s *spending) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		s.note(&calls[i].Request)
	}
	s.Store.DoAll(ctx, calls)
}

// signaled is a connection that says when it is closed.
type signaled struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (c *signaled) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

// frames turns what a fuzzer says into frames of calls, most of them sensible. Each stream is a call of a user with
// its number.
type frames struct {
	t     testing.TB
	token string
	said  []byte
	out   []byte
	n     int
	run   int // makes the users of each connection different
}

func (f *frames) next(n int) []byte {
	n = min(n, len(f.said))
	b := f.said[:n]
	f.said = f.said[n:]
	return b
}

func (f *frames) frame(kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) {
	f.out = append(appendFrame(f.out, len(payload), kind, flags, id), payload...)
	f.n++
}

// block is a header block without the dynamic table.
func (f *frames) block(path string) []byte {
	b := appendField(nil, ":method", "POST")
	for _, field := range [][2]string{{":scheme", "http"}, {":path", path}, {":authority", "x"},
		{"content-type", "application/grpc"}, {"sluice-token", f.token}} {
		b = appendField(b, field[0], field[1])
	}
	return b
}

func (f *frames) message(id uint32) []byte {
	return []byte(prefixed(encode(f.t, &ratelimitv3.RateLimitRequest{Domain: "shop",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("path", "/pay", "user", fmt.Sprint(f.run, "-", id))}})))
}

// build builds all frames.
func (f *frames) build() {
	const most = 400
	for len(f.said) >= 3 && f.n < most {
		head := f.next(3)
		id, flags := uint32(head[1]%64)*2+1, http2.Flags(head[2])
		if head[1] >= 250 {
			id = uint32(head[1] % 4)
		}
		switch head[0] % 16 {
		case 0, 1, 2:
			f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id,
				f.block(ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName))
			f.frame(http2.FrameData, http2.FlagDataEndStream, id, f.message(id))
		case 3:
			f.frame(http2.FrameHeaders, flags&^http2.FlagHeadersPriority&^http2.FlagHeadersPadded, id,
				f.block(ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName))
		case 4:
			f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, f.block(grpc_health_v1.Health_Check_FullMethodName))
			f.frame(http2.FrameData, http2.FlagDataEndStream, id, []byte(prefixed("")))
		case 5:
			f.frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, f.block(grpc_health_v1.Health_Watch_FullMethodName))
			f.frame(http2.FrameData, flags&http2.FlagDataEndStream, id, []byte(prefixed("")))
		case 6:
			f.frame(http2.FrameData, flags&http2.FlagDataEndStream, id, f.message(id))
		case 7:
			f.frame(http2.FrameData, flags, id, f.next(int(head[2])))
		case 8:
			f.frame(http2.FrameRSTStream, 0, id, binary.BigEndian.AppendUint32(nil, uint32(head[2])))
		case 9:
			f.frame(http2.FrameSettings, flags&1, 0, f.next(int(head[2])%4*6))
		case 10:
			f.frame(http2.FramePing, flags&1, 0, make([]byte, 8))
		case 11:
			more := uint32(head[2]) << (head[1] % 28)
			f.frame(http2.FrameWindowUpdate, 0, id&uint32(flags), binary.BigEndian.AppendUint32(nil, more))
		case 12:
			f.frame(http2.FrameContinuation, flags, id, f.next(int(head[2])))
		case 13:
			f.frame(http2.FramePriority, 0, id, make([]byte, 5))
		case 14:
			f.frame(http2.FrameType(head[2]%12), http2.Flags(head[1]), id, f.next(int(head[2])))
		case 15:
			f.out = append(f.out, f.next(int(head[2]))...)
		}
	}
}

// FuzzLoop: whatever a client sends, nothing panics, the connection ends, no call is decided twice, no memory stays.
func FuzzLoop(f *testing.F) {
	pay := rules.Rule{ID: 2, Name: "pay", Limit: 5, WindowMS: 60_000, IsActive: true, Version: 1}
	pay.Descriptor = &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "path", Value: "/pay"},
		{Key: "user"}}}
	pay.Normalize()
	x := newFixture(f, byLoop, append(perUser(5), pay))
	x.server.messageWait = 20 * time.Millisecond
	store := &spending{Store: x.store.Store}
	x.store.Store = store
	f.Add([]byte{0, 0, 0, 0, 1, 0, 8, 1, 0, 4, 2, 0, 5, 3, 1, 5, 4, 0, 8, 4, 0, 0, 9, 0})
	f.Add([]byte{3, 0, 0, 12, 0, 4, 6, 0, 1, 9, 0, 1, 0, 4, 0, 0, 0, 9, 10, 0, 0, 11, 0, 255, 13, 0, 0, 7, 1, 9, 1, 2, 3})
	f.Add([]byte{5, 0, 1, 0, 1, 0, 0, 2, 0, 14, 3, 7, 1, 1, 1, 1, 1, 1, 1, 15, 0, 20, 0, 0, 0, 0, 0, 0})
	const settled, most = 4000, 64 << 20
	execs, base := 0, uint64(0)
	f.Fuzz(func(t *testing.T, said []byte) {
		made := frames{t: t, token: x.secrets[access.ScopeCheck], said: said, run: execs % runs}
		made.out = append(made.out, http2.ClientPreface...)
		made.frame(http2.FrameSettings, 0, 0, nil)
		made.build()
		store.mu.Lock()
		times := store.of(made.run)
		store.mu.Unlock()
		client, end := net.Pipe()
		server := &signaled{Conn: end, closed: make(chan struct{})}
		x.server.loop.start(server)
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, client)
		}()
		_ = client.SetWriteDeadline(time.Now().Add(patience))
		for out := made.out; len(out) > 0; { // in pieces that do not end with frames
			n := min(len(out), 1500)
			if _, err := client.Write(out[:n]); err != nil {
				break
			}
			out = out[n:]
		}
		_ = client.Close()
		select {
		case <-server.closed:
		case <-time.After(patience):
			t.Fatal("the connection does not end")
		}
		<-read
		store.mu.Lock()
		for key, n := range times {
			if n > 1 {
				t.Errorf("%s was decided %d times", key, n)
			}
		}
		store.mu.Unlock()
		if x.panicked.Load() != 0 {
			t.Fatal(x.logged.String())
		}
		if execs++; execs%settled == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			if base == 0 {
				base = m.HeapAlloc
			}
			if m.HeapAlloc > base+most {
				t.Errorf("%d bytes are in use, of which %d were at first", m.HeapAlloc, base)
			}
			if n := len(x.server.loop.all()); n > 2 {
				t.Errorf("%d connections are open", n)
			}
		}
	})
}
