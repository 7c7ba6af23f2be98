package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/internal/localtoken"
)

// node is one sluice node, which may be killed and restarted. Its current process can be read at any time.
type node struct {
	name, addr, binary, data string
	env                      []string

	now     atomic.Pointer[process]
	inTurn  atomic.Bool // ready when the balancer last looked
	metrics meter
}

func newNode(ctx context.Context, name, binary, dir string, env []string) (*node, error) {
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, err
	}
	n := &node{name: name, addr: addr, binary: binary, data: filepath.Join(dir, name), env: env}
	return n, n.start(ctx)
}

// start runs the process and waits until it is ready.
func (n *node) start(ctx context.Context) error {
	env := append([]string{
		"SLUICE_LISTEN=" + n.addr, "SLUICE_DATA_DIR=" + n.data,
		// Longer than the balancer takes to notice.
		"SLUICE_DRAIN_DELAY=700ms",
	}, n.env...)
	p, err := start(nil, n.data+".log", env, n.binary, "serve")
	if err != nil {
		return err
	}
	n.now.Store(p)
	dataDirs.Store(n.addr, n.data)
	if err := until(ctx, p, n.ready); err != nil {
		return err
	}
	n.inTurn.Store(true)
	return nil
}

// ready reads the node's readiness.
func (n *node) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	status, _, err := get(ctx, "http://"+n.addr+"/readyz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("readyz answered %d", status)
	}
	return err
}

// restart reads the node's last figures, stops it like an operator, and starts it.
func (n *node) restart(ctx context.Context) error {
	p := n.now.Load()
	p.ending.Store(true)
	p.signal(syscall.SIGTERM)
	wait(ctx, 400*time.Millisecond) // within the drain delay, without traffic by now
	n.metrics.read(ctx, n.addr)
	if err := p.end(syscall.SIGTERM); err != nil {
		return err
	}
	n.metrics.keep()
	return n.start(ctx)
}

// kill ends it at once.
func (n *node) kill(ctx context.Context) {
	n.metrics.read(ctx, n.addr)
	n.now.Load().kill()
	n.metrics.keep()
}

// fleet is everything that was started.
type fleet struct {
	redis    *redisServer
	scratch  *redisServer // where audits read their copies
	postgres *postgresServer
	nodes    []*node
	rules    map[string]ruleOf // by id
	limit    int64             // of each user, before edits add to it
	turn     atomic.Uint64
	stopPoll context.CancelFunc
	polls    sync.WaitGroup
}

func startFleet(ctx context.Context, s *settings, dir string) (*fleet, error) {
	f := &fleet{limit: s.limit}
	if s.binary == "" {
		var err error
		if s.binary, err = build(ctx, dir); err != nil {
			return f, err
		}
	}
	var err error
	if f.redis, err = startRedis(ctx, dir, "redis"); err != nil {
		return f, err
	}
	if f.scratch, err = startRedis(ctx, dir, "scratch"); err != nil {
		return f, err
	}
	if f.postgres, err = startPostgres(ctx, dir); err != nil {
		return f, err
	}
	for _, name := range []string{"node-a", "node-b"} {
		n, err := newNode(ctx, name, s.binary, dir, []string{"REDIS_URL=" + f.redis.url(), "DATABASE_URL=" +
			f.postgres.URL()})
		if n != nil {
			f.nodes = append(f.nodes, n)
		}
		if err != nil {
			return f, err
		}
	}
	if f.rules, err = createRules(ctx, s, f.nodes[0].addr); err != nil {
		return f, err
	}
	for _, n := range f.nodes {
		if err := until(ctx, n.now.Load(), func(ctx context.Context) error { return follows(ctx, n.addr) }); err != nil {
			return f, err
		}
	}
	pollCtx, stop := context.WithCancel(ctx)
	f.stopPoll = stop
	for _, n := range f.nodes {
		f.polls.Go(func() { n.watch(pollCtx) })
	}
	return f, nil
}

// follows reports whether the rule that was created last is in force on the node.
func follows(ctx context.Context, addr string) error {
	status, doc, err := send(ctx, http.MethodPost, "http://"+addr+"/ratelimit/check",
		classes[len(classes)-1].question("nobody", 0, 0, ""))
	if err == nil && (status != http.StatusOK || !strings.Contains(string(doc), `"mode"`)) {
		err = fmt.Errorf("the rules are not in force: %d %s", status, doc)
	}
	return err
}

// watch keeps the balancer's view of the node.
func (n *node) watch(ctx context.Context) {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.inTurn.Store(n.ready(ctx) == nil)
		}
	}
}

// next returns the node for the next request, in turn, except for one that is not ready or has
// just refused a connection.
func (f *fleet) next(not *node) *node {
	first := f.turn.Add(1)
	for i := range uint64(len(f.nodes)) {
		if n := f.nodes[(first+i)%uint64(len(f.nodes))]; n != not && n.inTurn.Load() {
			return n
		}
	}
	for i := range uint64(len(f.nodes)) {
		if n := f.nodes[(first+i)%uint64(len(f.nodes))]; n != not {
			return n
		}
	}
	return not
}

// stop stops everything, last in first out.
func (f *fleet) stop() {
	if f.stopPoll != nil {
		f.stopPoll()
		f.polls.Wait()
	}
	var ends sync.WaitGroup
	for _, n := range f.nodes {
		if p := n.now.Load(); p != nil {
			ends.Go(func() { _ = p.end(syscall.SIGTERM) })
		}
	}
	ends.Wait()
	if f.postgres != nil && f.postgres.process != nil {
		_ = f.postgres.end(syscall.SIGINT)
	}
	for _, r := range []*redisServer{f.scratch, f.redis} {
		if r != nil && r.process != nil {
			r.kill()
		}
	}
}

// died lists the nodes whose processes ended unexpectedly.
func (f *fleet) died() error {
	var errs []error
	for _, n := range f.nodes {
		p := n.now.Load()
		select {
		case <-p.done:
			if !p.ending.Load() {
				errs = append(errs, fmt.Errorf("%s ended by itself:\n%s", n.name, p.tail()))
			}
		default:
		}
	}
	return errors.Join(errs...)
}

func get(ctx context.Context, url string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	return answer(req)
}

// side is the client for requests that are not load.
var side = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}

// dataDirs are the data directories of the nodes, by address: each has the local token of its node.
var dataDirs sync.Map

func answer(req *http.Request) (int, []byte, error) {
	if dir, ok := dataDirs.Load(req.URL.Host); ok {
		if token, err := localtoken.Read(fmt.Sprint(dir)); err == nil { // a node that starts has none yet
			req.Header.Set("Authorization", "Bearer "+token)
		}
	}
	res, err := side.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	return res.StatusCode, b, err
}
