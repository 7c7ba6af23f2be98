package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/bench/postgres"
	"sluice/bench/process"
)

// The scenario of edits: three nodes with many rules share one Postgres and one Redis. Each gets
// a steady load of checks, and the first gets one edit per second. Turns with and without edits
// alternate, so that other work on the machine affects both.
const (
	editNodes  = 3
	editRules  = 100_000
	editTurns  = 4
	editCount  = 15  // in each turn
	editRate   = 200 // checks per second on each node
	editConns  = 16  // on each node
	editEvery  = time.Second
	editLimit  = 10 * time.Minute
	editPoll   = 2 * time.Millisecond
	editCalm   = 15 * time.Second // pause after edits, until their copies are on disk
	editGiveUp = 10 * time.Second // timeout for one edit to be in force everywhere
)

// edits holds the results of the scenario.
type edits struct {
	write      []time.Duration // of the writer's request
	lag        []time.Duration // from the writer's answer to the edit in force on all nodes
	early      int             // answers before the edit was in force on the writer's own node
	notInForce int             // answers with Sluice-In-Force: false
	quiet      turns           // without edits
	busy       turns           // while edits were made
	started    int64           // resident bytes of the largest node, after start
	growth     float64
}

// turns holds the results of the checks of several turns.
type turns struct {
	took     []time.Duration
	degraded float64 // decisions without the store
	cpu      time.Duration
	peak     int64 // resident bytes of the largest node
}

func measureEdits(ctx context.Context, dir, bin string) (*edits, error) {
	ctx, cancel := context.WithTimeout(ctx, editLimit)
	defer cancel()
	nodes, stop, err := startFleet(ctx, dir, bin)
	defer stop()
	if err != nil {
		return nil, err
	}
	e := &edits{}
	started := make([]int64, len(nodes))
	for i, n := range nodes {
		started[i] = n.Resident()
	}
	e.started = slices.Max(started)

	for turn := range editTurns {
		fmt.Fprintf(os.Stderr, "edits: turn %d of %d\n", turn+1, editTurns)
		if err := sleep(ctx, editCalm); err != nil {
			return nil, err
		}
		if _, err := e.quiet.add(ctx, nodes, nil); err != nil {
			return nil, err
		}
		peaks, err := e.busy.add(ctx, nodes, func(ctx context.Context) error { return e.edit(ctx, nodes, turn*editCount) })
		if err != nil {
			return nil, err
		}
		for i, p := range peaks {
			e.growth = max(e.growth, float64(p)/float64(started[i]))
		}
	}
	slices.Sort(e.lag)
	slices.Sort(e.write)
	return e, nil
}

// add runs one turn of checks, together with edits unless edit is nil, and returns the peaks of
// the nodes' resident memory.
func (t *turns) add(ctx context.Context, nodes []server, edit func(context.Context) error) ([]int64, error) {
	before, err := degradedOf(ctx, nodes)
	if err != nil {
		return nil, err
	}
	cpu := cpuOf(nodes)
	watch := watchMemory(ctx, nodes)
	loaded, cancel := context.WithCancel(ctx)
	defer cancel()
	var lat []time.Duration
	var loadErr error
	var wg sync.WaitGroup
	wg.Go(func() { lat, loadErr = loadAll(loaded, nodes, editCount*editEvery) })
	if edit != nil {
		if err = edit(ctx); err != nil {
			cancel()
		}
	}
	wg.Wait()
	peaks := watch()
	if err := cmp.Or(err, loadErr); err != nil {
		return nil, err
	}
	t.cpu += cpuOf(nodes) - cpu
	after, err := degradedOf(ctx, nodes)
	if err != nil {
		return nil, err
	}
	t.degraded += after - before
	t.took = append(t.took, lat...)
	t.peak = max(t.peak, slices.Max(peaks))
	return peaks, nil
}

func cpuOf(nodes []server) (sum time.Duration) {
	for _, n := range nodes {
		sum += n.CPU()
	}
	return sum
}

// startFleet starts all servers. stop stops them; call it even after an error.
func startFleet(ctx context.Context, dir, bin string) (nodes []server, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range slices.Backward(stops) {
			s()
		}
	}
	redis, redisAddr, err := process.StartRedis(ctx, dir)
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, redis.Stop)
	addrs, err := process.FreeAddrs(ctx, 1)
	if err != nil {
		return nil, stop, err
	}
	// Postgres runs as another account, which must be able to enter the folder.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // only its name is needed to pass
		return nil, stop, err
	}
	pg, err := postgres.New(ctx, filepath.Join(dir, "postgres"), addrs[0])
	if err != nil {
		return nil, stop, err
	}
	p, err := process.StartAs(ctx, pg.Cred, filepath.Join(dir, "postgres.log"), []string{"LC_ALL=C"}, pg.Program,
		pg.Args...)
	if err != nil {
		return nil, stop, err
	}
	stops = append(stops, func() { p.End(syscall.SIGINT) })
	if err := process.Until(ctx, p, func() error {
		return command(ctx, nil, filepath.Join(pg.Bin, "pg_isready"), "-q", "-d",
			pg.URL())
	}); err != nil {
		return nil, stop, err
	}
	fmt.Fprintf(os.Stderr, "edits: %d rules, %d nodes\n", editRules, editNodes)
	if err := command(ctx, []string{"DATABASE_URL=" + pg.URL()}, bin, "migrate", "up"); err != nil {
		return nil, stop, err
	}
	insert := fmt.Sprintf(`INSERT INTO rules (name, scope, route, method, algorithm, limit_count, window_ms,
			created_at, updated_at)
		SELECT 'rule-' || i, 'user', '/v1/route-' || i, 'POST', 'sliding_window_counter', 1000000, 60000, now(), now()
		FROM generate_series(1, %d) i`, editRules)
	if err := command(ctx, nil, filepath.Join(pg.Bin, "psql"), "-qX", "-v", "ON_ERROR_STOP=1", "-d", pg.URL(), "-c",
		insert, "-c", "ANALYZE"); err != nil {
		return nil, stop, err
	}
	sc := scenario{kind: sluice, redis: true, env: []string{"DATABASE_URL=" + pg.URL()}}
	for range editNodes {
		n, err := startServer(ctx, bin, sc, dir, redisAddr, "") // with the collector's settings of a real node
		if err != nil {
			return nil, stop, err
		}
		stops = append(stops, n.Stop)
		nodes = append(nodes, n)
	}
	for _, n := range nodes { // until start-up is complete with the copy of the rules
		if err := awaitCopy(ctx, n.Addr); err != nil {
			return nil, stop, err
		}
	}
	return nodes, stop, nil
}

// awaitCopy waits until a node has its copy of the rules on disk.
func awaitCopy(ctx context.Context, addr string) error {
	for {
		n, err := process.Target{Addr: addr}.Metric(ctx, `sluice_rule_copies_total{outcome="saved"}`)
		if err != nil || n > 0 {
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, b)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// loadAll sends checks to every node. They match all rules in turn.
func loadAll(ctx context.Context, nodes []server, length time.Duration) ([]time.Duration, error) {
	lats := make([][]time.Duration, len(nodes))
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		sc := scenario{path: check, body: func(n, keys int) string {
			return editCheck(1+n*10%editRules,
				"u"+strconv.Itoa(n%keys), 1)
		}}
		to := process.Target{Addr: n.Addr}
		reqs := requests(to, sc, 10_000)
		wg.Go(func() { lats[i], errs[i] = openLoop(ctx, connections(to, reqs), editConns, editRate, length) })
	}
	wg.Wait()
	return slices.Concat(lats...), errors.Join(errs...)
}

func editCheck(rule int, user string, weight int) string {
	return fmt.Sprintf(`{"method":"POST","route":"/v1/route-%d","user":%q,"weight":%d}`, rule, user, weight)
}

// edit makes one edit per second on the first node, starting with number first, and waits until
// each is in force on all nodes.
func (e *edits) edit(ctx context.Context, nodes []server, first int) error {
	tick := time.NewTicker(editEvery)
	defer tick.Stop()
	for n := first; n < first+editCount; n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		id, limit := 1+(n*1_009)%editRules, int64(2_000_000+n)
		begin := time.Now()
		res, err := call(ctx, http.MethodPatch, nodes[0].Target, "/ratelimit/rules/"+strconv.Itoa(id),
			fmt.Sprintf(`{"limit":%d}`, limit), nil)
		answered := time.Now()
		if err != nil {
			return err
		}
		if res.Get("Sluice-In-Force") == "false" {
			e.notInForce++
		}
		lags := make([]time.Duration, len(nodes))
		errs := make([]error, len(nodes))
		own := true
		var wg sync.WaitGroup
		for i, node := range nodes {
			wg.Go(func() {
				tries, err := awaitLimit(ctx, node.Addr, id, limit)
				lags[i], errs[i] = time.Since(answered), err
				if i == 0 {
					own = tries == 1
				}
			})
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		if !own {
			e.early++
		}
		e.write = append(e.write, answered.Sub(begin))
		e.lag = append(e.lag, slices.Max(lags))
	}
	return nil
}

// awaitLimit sends checks to a node until it decides by the limit, and counts them.
func awaitLimit(ctx context.Context, addr string, rule int, limit int64) (tries int, err error) {
	ctx, cancel := context.WithTimeout(ctx, editGiveUp)
	defer cancel()
	for {
		var got struct {
			Limit    int64   `json:"limit"`
			Degraded *string `json:"degraded"`
		}
		_, err := call(ctx, http.MethodPost, process.Target{Addr: addr}, check, editCheck(rule, "probe", 0), &got)
		if err != nil {
			return tries, err
		}
		if got.Degraded == nil { // the answer of a fail mode has no limit
			tries++
		}
		if got.Limit == limit {
			return tries, nil
		}
		if err := sleep(ctx, editPoll); err != nil {
			return tries, fmt.Errorf("rule %d has the limit %d on %s, not yet %d: %w", rule, got.Limit, addr, limit, err)
		}
	}
}

func call(ctx context.Context, method string, to process.Target, path, body string, into any) (http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+to.Addr+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if err := to.Authorize(req); err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s answered %d: %s", method, path, res.StatusCode, b)
	}
	if into != nil {
		err = json.Unmarshal(b, into)
	}
	return res.Header, err
}

func degradedOf(ctx context.Context, nodes []server) (sum float64, err error) {
	sc := scenario{kind: sluice}
	for _, n := range nodes {
		d, err := sc.degraded(ctx, process.Target{Addr: n.Addr})
		if err != nil {
			return 0, err
		}
		sum += d
	}
	return sum, nil
}

// watchMemory samples the nodes' resident memory. The function that it returns ends this and
// returns each node's peak.
func watchMemory(ctx context.Context, nodes []server) func() []int64 {
	ctx, cancel := context.WithCancel(ctx)
	peaks := make([]int64, len(nodes))
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			for i, n := range nodes {
				peaks[i] = max(peaks[i], n.Resident())
			}
			if sleep(ctx, 50*time.Millisecond) != nil {
				return
			}
		}
	})
	return func() []int64 {
		cancel()
		wg.Wait()
		return peaks
	}
}

// report writes the section of the page.
func (e *edits) report(w *bytes.Buffer) {
	mib := func(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
	quiet, busy := summarize(e.quiet.took), summarize(e.busy.took)
	perNode := func(t turns) string {
		return fmt.Sprintf("%.1f %%", 100*t.cpu.Seconds()/(editTurns*editCount*editEvery*editNodes).Seconds())
	}
	fmt.Fprintf(w, "%d cores, %s, load average %s at the end, %d rules, %d nodes, %d edits on one of them, one a "+
		"second, %d checks a second on each. "+
		"Turns of %d s without edits and with them alternate. Client, nodes, Redis and Postgres share the cores; the nodes "+
		"have the collector's settings of a node started without any.\n\n",
		runtime.NumCPU(), runtime.Version(), loadAverage(), editRules, editNodes, len(e.lag), editRate, editCount)
	fmt.Fprint(w, "| edits of one rule among many | measured | goal |\n|---|---|---|\n")
	for _, row := range [][3]string{
		{"writer's answer, p50 and p99", ms(quantile(e.write, 0.5)) + " and " + ms(quantile(e.write, 0.99)) + " ms", "–"},
		{"from the answer to in force on all nodes, p50", ms(quantile(e.lag, 0.5)) + " ms", "–"},
		{"from the answer to in force on all nodes, p99", ms(quantile(e.lag, 0.99)) + " ms", "at most 100 ms"},
		{"the slowest of them", ms(e.lag[len(e.lag)-1]) + " ms", "–"},
		{"answers before the edit was in force on the writer's node", fmt.Sprintf("%d of %d (%d said so)", e.early,
			len(e.lag), e.notInForce), "0"},
		{"degraded checks without edits", fmt.Sprintf("%.0f of %d", e.quiet.degraded, len(e.quiet.took)), "–"},
		{"degraded checks with edits", fmt.Sprintf("%.0f of %d", e.busy.degraded, len(e.busy.took)), "0"},
		{"p99 of checks without edits, with", ms(quiet.p99) + ", " + ms(busy.p99) + " ms", "–"},
		{"p99.9 of checks without edits, with", ms(quiet.p999) + ", " + ms(busy.p999) + " ms", "–"},
		{"processor of one node without edits, with, of one core", perNode(e.quiet) + ", " + perNode(e.busy), "–"},
		{"resident memory of a node after start, under checks, with edits (peaks)", mib(e.started) + ", " +
			mib(e.quiet.peak) + ", " + mib(e.busy.peak), "–"},
		{"peak with edits to after start, the node that grew most", fmt.Sprintf("%.2f", e.growth), "at most 1.3"},
	} {
		fmt.Fprintf(w, "| %s | %s | %s |\n", row[0], row[1], row[2])
	}
}

func loadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(b), " ")
	return one
}
