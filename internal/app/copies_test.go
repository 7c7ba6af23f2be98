package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/access"
	"sluice/internal/rulecopy"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/profile"
)

const elsewhere = "postgres db.example:5432/sluice"

func copiesAt(t *testing.T, path string) (*ruleCopies, *buffer) {
	t.Helper()
	log := &buffer{}
	metrics := newRuleMetrics(prometheus.NewRegistry(), time.Now)
	known := trouble.New(slog.New(slog.NewTextHandler(log, nil)), time.Now, nil)
	return newRuleCopies(path, elsewhere, known, metrics, time.Now), log
}

// setOf compiles rules named after their number.
func setOf(t *testing.T, version int64, n int) inForce {
	t.Helper()
	var rs []rules.Rule
	for i := range n {
		rs = append(rs, goodRule(int64(i+1), fmt.Sprintf("rule-%d", i)))
	}
	set, err := match.Compile(rs, version, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return inForce{set: set, tokens: []access.Token{{ID: 1, Name: "t", Hash: [32]byte{1}}},
		at: time.UnixMilli(version * 1000)}
}

func TestCopies_TheLatestIsOnDiskInTheEnd(t *testing.T) {
	c, _ := copiesAt(t, filepath.Join(t.TempDir(), "made", "rules.copy"))
	stop := task(func(ctx context.Context) { c.run(ctx, time.Hour) })
	for v := range int64(200) {
		c.save(setOf(t, v, 3), true)
	}
	eventually(t, "version 199 is on disk", func() bool {
		got, err := c.load()
		return err == nil && got.Version == 199 && len(got.Rules) == 3 && len(got.Tokens) == 1
	})
	c.save(setOf(t, 200, 3), false) // no reason to write yet
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.load()
	if err != nil || got.Version != 200 || !got.At.Equal(time.UnixMilli(200_000)) {
		t.Errorf("got %+v, %v, want what was kept last: stopping must write it", got, err)
	}
}

func TestCopies_ANodeStartsWithTheProfilesOfTheCopy(t *testing.T) {
	c, _ := copiesAt(t, filepath.Join(t.TempDir(), "rules.copy"))
	p := profile.New()
	p.Name, p.Routes = "shop", []string{"/users/{id}"}
	set, err := match.CompileSource(rules.Source{Profiles: []profile.Profile{p}, Version: 7}, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.save(inForce{set: set, tokens: lastRun().Tokens, at: savedAt}, true)
	c.writeLatest(func() {})
	r, _, _ := recalling(&shelf{migrate: rules.ErrUnavailable})
	r.loadCopy = c.load
	pass(t, r)
	if got := r.sets.Load(); got == nil || got.Profile("shop") == nil || got.Profile("shop").Routes[0] != "/users/{id}" {
		t.Errorf("in force: %+v", got)
	}
}

func TestCopies_NothingIsWrittenBeforeThereIsAnything(t *testing.T) {
	c, _ := copiesAt(t, filepath.Join(t.TempDir(), "rules.copy"))
	stop := task(func(ctx context.Context) { c.run(ctx, time.Millisecond) })
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.exists() {
		t.Error("an empty copy was written")
	}
}

func TestCopies_ARefreshHealsARemovedFile(t *testing.T) {
	c, _ := copiesAt(t, filepath.Join(t.TempDir(), "rules.copy"))
	c.save(setOf(t, 1, 1), true)
	c.writeLatest(withoutPause)
	if err := os.Remove(c.path); err != nil {
		t.Fatal(err)
	}
	c.save(setOf(t, 1, 1), false)
	c.writeLatest(withoutPause)
	if !c.exists() {
		t.Error("the file did not come back")
	}
}

func TestCopies_AFullDiskIsLoudOnceAndHeals(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, log := copiesAt(t, filepath.Join(blocked, "rules.copy")) // a file where a folder must be
	for v := range int64(5) {
		c.save(setOf(t, v, 1), true)
		c.writeLatest(withoutPause)
	}
	if got := strings.Count(log.String(), "saving the local copy of the rules failed"); got != 1 {
		t.Errorf("%d log lines about one failure, want 1:\n%s", got, log)
	}
	if err := os.Remove(blocked); err != nil {
		t.Fatal(err)
	}
	c.writeLatest(withoutPause)
	if got, err := c.load(); err != nil || got.Version != 4 || !strings.Contains(log.String(), "again") {
		t.Errorf("got %v, %v after the disk healed\n%s", got, err, log)
	}
}

// A copy that is torn anywhere or changed anywhere is refused; rulecopy's tests
// try every place, this one that the node waits and says so.
func TestCopies_DamagedIsRefusedAndTheNodeWaits(t *testing.T) {
	c, _ := copiesAt(t, filepath.Join(t.TempDir(), "rules.copy"))
	c.save(setOf(t, 7, 2), true)
	c.writeLatest(withoutPause)
	good, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"empty": {}, "foreign": foreignCopy(t),
		"newer": append([]byte("SLUICERC\x00\x00\x00\x03"), good[12:]...)}
	for n := 1; n < len(good); n += len(good) / 20 {
		damage[fmt.Sprintf("cut to %d", n)] = good[:n]
		flipped := append([]byte(nil), good...)
		flipped[n] ^= 0x10
		damage[fmt.Sprintf("changed at %d", n)] = flipped
	}
	for name, data := range damage {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(c.path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			r, log := reloaderOf(&shelf{migrate: rules.ErrUnavailable})
			r.loadCopy = c.load
			pass(t, r)
			pass(t, r)
			if r.readiness.ready() == nil || r.sets.Load() != nil || r.access.Load() != nil {
				t.Error("a damaged copy is in force")
			}
			if got := strings.Count(log.String(), "copy of the rules was rejected"); got != 1 ||
				!strings.Contains(log.String(), "not ready") {
				t.Errorf("%d log lines say so, want 1:\n%s", got, log)
			}
		})
	}
}

func foreignCopy(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign.copy")
	err := rulecopy.SaveRules(path, "postgres db.example:5432/staging", &rulecopy.Copy{Version: 7}, func() {},
		slices.Values([]*rules.Rule(nil)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
