package sim

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// defaultSeeds is the number of seeds that every test run simulates.
const defaultSeeds = 1000

// options returns the options of a seed: every fourth compares the real memory store with the
// model of the shared store.
func options(seed uint64) Options { return Options{Memory: seed%4 == 0} }

// judgeSeed runs one seed and shows its trace if it fails.
func judgeSeed(t *testing.T, seed uint64) Accounts {
	t.Helper()
	a, err := Run(seed, options(seed))
	if err != nil {
		var trace bytes.Buffer
		opt := options(seed)
		opt.Trace = &trace
		_, _ = Run(seed, opt)
		t.Fatalf("%v\nSee it again with SLUICE_SIM_SEED=%d, keep it with a line in testdata/regressions.txt.\n%s", err, seed,
			trace.String())
	}
	return a
}

// number reads a number from the environment.
func number(t *testing.T, name string) (uint64, bool) {
	t.Helper()
	v := os.Getenv(name)
	if v == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n, true
}

func TestSeeds_KeepEveryInvariantAndCloseTheAccounts(t *testing.T) {
	if seed, ok := number(t, "SLUICE_SIM_SEED"); ok {
		opt := options(seed)
		opt.Trace = t.Output()
		a, err := Run(seed, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %s", seed, a)
		return
	}
	seeds, ok := number(t, "SLUICE_SIM_SEEDS")
	if !ok {
		seeds = defaultSeeds
	}
	var sum Accounts
	for seed := range seeds {
		sum = sum.plus(judgeSeed(t, seed))
	}
	if sum.Rest() != 0 {
		t.Errorf("over all seeds %d units are left over", sum.Rest())
	}
	t.Logf("%d seeds: %s", seeds, sum)
	for what, n := range map[string]int64{"within": sum.Within, "lost": sum.Lost, "emptied": sum.Emptied,
		"local": sum.Local, "open": sum.Open, "unheard": sum.Unheard} {
		if n == 0 {
			t.Errorf("no life had any unit %s: the faults do not bite", what)
		}
	}
}

func TestRegressions_StayFixed(t *testing.T) {
	text, err := os.ReadFile("testdata/regressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		seed, err := strconv.ParseUint(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		judgeSeed(t, seed)
	}
}

func TestRun_SameSeedSameTrace(t *testing.T) {
	for seed := range uint64(100) {
		var first, second bytes.Buffer
		for _, b := range []*bytes.Buffer{&first, &second} {
			opt := options(seed)
			opt.Trace = b
			if _, err := Run(seed, opt); err != nil {
				t.Fatal(err)
			}
		}
		if first.String() != second.String() {
			t.Errorf("seed %d: two runs, two traces", seed)
		}
		if first.Len() == 0 {
			t.Errorf("seed %d: an empty trace", seed)
		}
	}
}

func TestRun_OtherSeedOtherLife(t *testing.T) {
	traces := map[string]uint64{}
	for seed := range uint64(20) {
		var b bytes.Buffer
		if _, err := Run(seed, Options{Steps: 30, Trace: &b}); err != nil {
			t.Fatal(err)
		}
		if other, seen := traces[b.String()]; seen {
			t.Errorf("seeds %d and %d live the same life", seed, other)
		}
		traces[b.String()] = seed
	}
}
