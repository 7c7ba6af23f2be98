package capacity_test

import (
	"flag"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/capacity"
)

// plain are figures that are easy to reckon with.
var plain = capacity.Figures{
	NodeMicros: 20, RuleMicros: 5, BatchMicros: 4,
	RedisMicros: map[string]float64{"gcra": 6}, KeyBytes: map[string]float64{"gcra": 100},
}

func TestMake_AddsUp(t *testing.T) {
	p, err := plain.Make(
		capacity.Load{PerSecond: 100_000, Keys: 10_000_000, Rules: 3, Algorithm: "gcra"},
		capacity.Sizing{Busy: 0.5, NodeCores: 4, ShardBytes: 1 << 30, Overhead: 1.5, NodePrice: 0.1, ShardPrice: 0.2},
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"µs a check", p.Micros, 30},              // 20 + 2·5
		{"busy cores", p.BusyCores, 3},            // 100,000 · 30 µs
		{"cores", p.Cores, 6},                     // 3 / 0.5
		{"nodes", float64(p.Nodes), 3},            // ceil(6/4) + 1
		{"busy shards", p.BusyShards, 1.8},        // 100,000 · 18 µs
		{"for load", float64(p.ShardsForLoad), 4}, // ceil(1.8 / 0.5)
		{"memory", p.Memory, 1.5e9},               // 1e7 · 100 · 1.5
		{"for memory", float64(p.ShardsForMemory), 2},
		{"servers", float64(p.RedisServers), 8},
		{"cost", p.Cost, 3*730*0.1 + 8*730*0.2},
	} {
		if math.Abs(tt.got-tt.want) > 1e-6 {
			t.Errorf("%s = %g, want %g", tt.what, tt.got, tt.want)
		}
	}
}

func TestMake_RefusesWhatIsOutOfRange(t *testing.T) {
	good := capacity.Load{PerSecond: 1, Rules: 1, Algorithm: "gcra"}
	for _, tt := range []struct {
		name string
		edit func(*capacity.Load, *capacity.Sizing)
		want string
	}{
		{"no load", func(l *capacity.Load, _ *capacity.Sizing) { l.PerSecond = 0 }, "checks per second"},
		{"not a number", func(l *capacity.Load, _ *capacity.Sizing) { l.PerSecond = math.NaN() }, "checks per second"},
		{"negative keys", func(l *capacity.Load, _ *capacity.Sizing) { l.Keys = -1 }, "keys"},
		{"no rules", func(l *capacity.Load, _ *capacity.Sizing) { l.Rules = 0 }, "rules"},
		{"busier than busy", func(_ *capacity.Load, s *capacity.Sizing) { s.Busy = 1.1 }, "busy"},
		{"paid to run", func(_ *capacity.Load, s *capacity.Sizing) { s.NodePrice = -1 }, "price"},
		{"unknown algorithm", func(l *capacity.Load, _ *capacity.Sizing) { l.Algorithm = "magic" }, "gcra"},
	} {
		l, s := good, capacity.Sizing{}
		tt.edit(&l, &s)
		if _, err := plain.Make(l, s); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.want)
		}
	}
}

// spread is three regions as the command has them, edited.
func spread(span string, edit func(*capacity.Regions)) *capacity.Regions {
	r := &capacity.Regions{Count: 3, Span: span, DelayMS: 80, WindowMS: 60_000}
	edit(r)
	return r
}

// cases are those of docs/capacity.md.
var cases = []struct {
	command string
	load    capacity.Load
}{
	{"sluice plan --daily 1000000000 --keys 10000000",
		capacity.Load{PerSecond: 1e9 / 86400 * 3, Keys: 1e7, Rules: 1, Algorithm: "sliding_window_counter"}},
	{"sluice plan --rps 50000 --keys 10000000",
		capacity.Load{PerSecond: 50_000, Keys: 1e7, Rules: 1, Algorithm: "sliding_window_counter"}},
	{"sluice plan --rps 500000 --keys 10000000 --rules 2",
		capacity.Load{PerSecond: 500_000, Keys: 1e7, Rules: 2, Algorithm: "sliding_window_counter"}},
	{"sluice plan --rps 50000 --keys 10000000 --regions 3 --span global --key-rps 1000 --limit 1000",
		capacity.Load{PerSecond: 50_000, Keys: 1e7, Rules: 1, Algorithm: "sliding_window_counter",
			Regions: spread(capacity.SpanGlobal, func(r *capacity.Regions) { r.KeyPerSecond, r.Limit = 1000, 1000 })}},
	{"sluice plan --rps 50000 --keys 10000000 --regions 3 --span local_then_global",
		capacity.Load{PerSecond: 50_000, Keys: 1e7, Rules: 1, Algorithm: "sliding_window_counter",
			Regions: spread(capacity.SpanShares, func(*capacity.Regions) {})}},
	{"sluice plan --rps 50000 --keys 10000000 --regions 3 --span global_exact",
		capacity.Load{PerSecond: 50_000, Keys: 1e7, Rules: 1, Algorithm: "sliding_window_counter",
			Regions: spread(capacity.SpanExact, func(*capacity.Regions) {})}},
}

var update = flag.Bool("update", false, "write the plans into docs/capacity.md")

// TestDocs_SayWhatTheCommandSays holds docs/capacity.md to the figures. After a
// change of them: go test ./internal/capacity -update, and read the page.
func TestDocs_SayWhatTheCommandSays(t *testing.T) {
	const path = "../../docs/capacity.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	if got := len(regexp.MustCompile(`(?m)^\$ sluice plan`).FindAllString(page, -1)); got != len(cases) {
		t.Errorf("docs/capacity.md has %d plans, %d are tested", got, len(cases))
	}
	for _, c := range cases {
		p, err := capacity.Measured.Make(c.load, capacity.Sizing{NodePrice: 0.17, ShardPrice: 0.25})
		if err != nil {
			t.Fatal(err)
		}
		head := "$ " + c.command + " --node-hour 0.17 --redis-hour 0.25\n"
		before, rest, found := strings.Cut(page, head)
		_, after, closed := strings.Cut(rest, "```")
		if !found || !closed {
			t.Errorf("docs/capacity.md lacks %q", head)
			continue
		}
		want := before + head + p.String() + "```" + after
		if page != want && !*update {
			t.Errorf("under %q docs/capacity.md does not say\n%s", c.command, p)
		}
		page = want
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil { //nolint:gosec // documentation
			t.Fatal(err)
		}
	}
}

// The second column has the figures of few connections, and what Redis needs beyond full calls.
func TestMake_PlansFewGateways(t *testing.T) {
	f := plain
	f.CallChecks, f.Few = 50, &capacity.FewFigures{Connections: 8, NodeMicros: 50, RedisMicros: 20, RuleRedisMicros: 2}
	load := capacity.Load{PerSecond: 100_000, Keys: 1e7, Rules: 3, Algorithm: "gcra"}
	p, err := f.Make(load, capacity.Sizing{Busy: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	if p.Few == nil || p.Few.Connections != 8 || p.Few.Few != nil {
		t.Fatalf("got %+v", p.Few)
	}
	for _, tt := range []struct {
		what      string
		got, want float64
	}{
		{"µs of Redis a check", p.RedisMicros, 18},         // 3 · 6
		{"of few", p.Few.RedisMicros, 42},                  // 18 + 20 + 2 · 2
		{"µs of a node, of few", p.Few.Micros, 60},         // 50 + 2 · 5
		{"shards of few", float64(p.Few.ShardsForLoad), 9}, // 4.2 / 0.5
		{"memory of few to all", p.Few.Memory / p.Memory, 1},
	} {
		if math.Abs(tt.got-tt.want) > 1e-6 {
			t.Errorf("%s = %g, want %g", tt.what, tt.got, tt.want)
		}
	}
	text := p.String()
	if !strings.Contains(text, "few gateways: 8 busy connections") || !strings.Contains(text, "carry 50 checks") {
		t.Errorf("the plan does not say what its columns are:\n%s", text)
	}
	load.Batch = true // which fills script calls by itself
	if p, err = f.Make(load, capacity.Sizing{}); err != nil || p.Few != nil {
		t.Errorf("batches: %+v, %v", p.Few, err)
	}
}

func TestReadCosts_NamesWhatIsMissing(t *testing.T) {
	good, err := os.ReadFile("costs.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range [][2]string{
		{`"node_us": 49.6`, `"node_us": 0`}, {`"connections": 64`, `"connections": 8`}, {`"batch_node_us": 5`, `"batch_node_us": 0`},
		{`"call_checks": 50`, `"calls": 50`}, {`"gcra": 3.4`, `"gcra": 0`}, {`"gcra": 129`, `"gcra": 0`}, {`{`, ``},
	} {
		if !strings.Contains(string(good), edit[0]) {
			t.Fatalf("costs.json lacks %s", edit[0])
		}
		if _, err := capacity.ReadCosts([]byte(strings.Replace(string(good), edit[0], edit[1], 1))); err == nil {
			t.Errorf("%s is no error", edit[1])
		}
	}
}
