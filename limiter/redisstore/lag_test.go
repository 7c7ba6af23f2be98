package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// laggard stands in front of a primary and holds back what that sends to its
// replicas. Other connections pass as they are.
type laggard struct {
	addr, target string
	lag          time.Duration
	listener     net.Listener
	cut          chan struct{} // closed when the primary is about to die
	wg           sync.WaitGroup
	reading      atomic.Int64 // connections on which the primary may still be heard

	mu   sync.Mutex
	held bytes.Buffer // what no replica got to see
}

func newLaggard(t testing.TB, target string, lag time.Duration) *laggard {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &laggard{addr: l.Addr().String(), target: target, lag: lag, listener: l, cut: make(chan struct{})}
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(p.close)
	return p
}

// close cuts all connections and forgets what is under way.
func (p *laggard) close() {
	select {
	case <-p.cut:
	default:
		close(p.cut)
	}
	_ = p.listener.Close()
	p.wg.Wait()
}

func (p *laggard) serve(down net.Conn) {
	var d net.Dialer
	up, err := d.DialContext(context.Background(), "tcp", p.target)
	if err != nil {
		_ = down.Close()
		return
	}
	p.reading.Add(1)
	done := make(chan struct{})
	p.wg.Go(func() {
		select {
		case <-p.cut:
		case <-done:
		}
		_ = errors.Join(up.Close(), down.Close())
	})
	var replica atomic.Bool
	p.wg.Go(func() { // requests
		b := make([]byte, 16<<10)
		for {
			n, err := down.Read(b)
			if bytes.Contains(b[:n], []byte("PSYNC")) {
				replica.Store(true)
			}
			if _, werr := up.Write(b[:n]); err != nil || werr != nil {
				_ = up.Close()
				return
			}
		}
	})
	type chunk struct {
		data []byte
		due  time.Time
	}
	queue := make(chan chunk, 1<<16)
	p.wg.Go(func() { // answers, or what is replicated
		defer close(done)
		for c := range queue {
			hold := time.NewTimer(time.Until(c.due))
			select {
			case <-hold.C:
				if _, err := down.Write(c.data); err == nil {
					continue
				}
			case <-p.cut:
				hold.Stop()
			}
			if replica.Load() {
				p.mu.Lock()
				p.held.Write(c.data)
				p.mu.Unlock()
			}
		}
	})
	defer close(queue)
	for {
		b := make([]byte, 16<<10)
		n, err := up.Read(b)
		if n > 0 {
			c := chunk{data: b[:n], due: time.Now()}
			if replica.Load() {
				c.due = c.due.Add(p.lag)
			}
			queue <- c
		}
		if err != nil {
			p.reading.Add(-1)
			return
		}
	}
}

// lost counts the writes that no replica got to see.
func (p *laggard) lost() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int64(bytes.Count(p.held.Bytes(), []byte("$3\r\nSET\r\n")))
}

func TestCluster_FailoverLosesNoMoreThanTheReplicaHadNotSeen(t *testing.T) {
	t.Parallel() // it waits for the cluster most of the time
	cluster := testenv.Cluster(t)
	primary := cluster.Nodes[0]
	replica := direct(t, cluster.ReplicaOf(primary))
	p := newLaggard(t, primary.Addr, 200*time.Millisecond)
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := direct(t, primary).ConfigSet(ctx, "cluster-announce-port", port).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the replica to follow through the proxy", func() bool {
		info := replica.Info(ctx, "replication").Val()
		return strings.Contains(info, "master_port:"+port+"\r\n") && strings.Contains(info, "master_link_status:up")
	})
	const limit, workers, killAt = 6000, 4, 2500
	s := open(t, client(t, cluster.URL()), redisstore.Options{})
	hot := ask(entityOn(t, cluster, primary), 1,
		limiter.Limit{Algorithm: limiter.FixedWindow, Count: limit, Window: limiter.MaxWindow, Align: limiter.AlignFirstHit})
	var passed, unknown, failed atomic.Int64
	var wg sync.WaitGroup
	give := time.NewTimer(time.Hour) // until the primary is killed
	defer give.Stop()
	for range workers {
		wg.Go(func() {
			pause := time.NewTicker(2 * time.Millisecond)
			defer pause.Stop()
			for {
				res, err := takeWithin(s, hot)
				var se *limiter.StoreError
				switch {
				case err == nil && !res.Allowed:
					return
				case err == nil:
					passed.Add(1)
					continue
				case errors.As(err, &se) && se.Unknown:
					unknown.Add(1)
				}
				failed.Add(1)
				select {
				case <-pause.C:
				case <-give.C:
					t.Error("the replica did not take over")
					give.Reset(0)
					return
				}
			}
		})
	}
	until(t, "load", func() bool { return passed.Load() >= killAt })
	cluster.AllowFailover()
	primary.Kill()
	give.Reset(patience)
	until(t, "its last words", func() bool { return p.reading.Load() == 0 })
	p.close()
	wg.Wait()
	over := passed.Load() - limit
	t.Logf("admitted %d of a limit of %d: %d over; %d writes had not reached the replica; %d requests failed, %d of "+
		"them possibly applied",
		passed.Load(), limit, over, p.lost(), failed.Load(), unknown.Load())
	if p.lost() == 0 {
		t.Error("the replica was not behind")
	}
	// What the last instant before the kill wrote may be in nobody's hands: a
	// request of each worker at most.
	if most := p.lost() + workers; over > most {
		t.Errorf("%d admitted beyond the limit, at most %d were lost", over, most)
	}
	if over < -unknown.Load() {
		t.Errorf("%d too few were admitted, only %d may have been applied without an answer", -over, unknown.Load())
	}
}
