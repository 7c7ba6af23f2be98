package nearstore

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

// noon is when virtual time begins, ms; the beginning of a minute and a second.
const noon = int64(1_795_260_000_000)

// counting is a store that counts the requests that reach it.
type counting struct {
	limiter.Store
	n atomic.Int64
	// fail, if not nil, is asked before each request.
	fail func(*limiter.Request) error
	// each, if not nil, sees each call of a batch after it.
	each func(*limiter.Call)
}

func (c *counting) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	c.n.Add(1)
	if c.fail != nil {
		if err := c.fail(req); err != nil {
			return err
		}
	}
	return c.Store.Do(ctx, req, res)
}

func (c *counting) DoAll(ctx context.Context, calls []limiter.Call) {
	c.n.Add(int64(len(calls)))
	c.Store.DoAll(ctx, calls)
	for i := range calls {
		if c.each != nil {
			c.each(&calls[i])
		}
	}
}

// virtual is nodes before one store in memory, all on one clock that a test
// sets. Nothing runs by itself.
type virtual struct {
	clock *storetest.Clock
	inner *counting
	nodes []*Store
}

// newVirtual makes n nodes. Each tells the others at once what to forget.
func newVirtual(t testing.TB, n int, opt Options) *virtual {
	t.Helper()
	v := &virtual{clock: storetest.NewClock(noon)}
	m := memstore.New(memstore.Options{Clock: v.clock.Now})
	t.Cleanup(func() { _ = m.Close() })
	v.inner = &counting{Store: m}
	for i := range n {
		opt.Store = v.inner
		opt.Now = func() time.Time { return time.UnixMilli(v.clock.Now()) }
		opt.Nodes = func() int { return n }
		opt.Tell = func(k limiter.Key, leases bool) {
			for j, other := range v.nodes {
				if j != i {
					other.Forget(k, leases)
				}
			}
		}
		s, err := newStore(opt)
		if err != nil {
			t.Fatal(err)
		}
		close(s.done)
		v.nodes = append(v.nodes, s)
	}
	return v
}

// tidy lets every node tidy up and give back what is due.
func (v *virtual) tidy() {
	for _, s := range v.nodes {
		s.tidy(true)
		s.returnAll(context.Background())
	}
}

var entities atomic.Int64

// bucket is a key that no other test uses.
func bucket(l limiter.Limit) limiter.Key {
	return limiter.Key(fmt.Sprintf("{near:%d}|1|%s", entities.Add(1), l.Algorithm.Kind()))
}

// send sends one request and fails the test on an error.
func send(t testing.TB, s limiter.Store, op limiter.Op, id string, asks ...limiter.Ask) limiter.Result {
	t.Helper()
	var res limiter.Result
	if err := s.Do(context.Background(), &limiter.Request{Op: op, ID: id, Asks: asks}, &res); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return res
}

func take(t testing.TB, s limiter.Store, asks ...limiter.Ask) limiter.Result {
	t.Helper()
	return send(t, s, limiter.OpTake, "", asks...)
}
