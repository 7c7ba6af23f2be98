package trouble_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/trouble"
)

var (
	down = trouble.Declare(trouble.Condition{Code: "down", Of: "server", Severe: true, Starts: "it is down",
		Ends: "it is up", Advice: "start it"})
	odd = trouble.Declare(trouble.Condition{Code: "odd", Starts: "it is odd", Ends: "it is even", EachReason: true})
)

// watched is a registry with a clock and a log of the test's own.
type watched struct {
	*trouble.Registry
	at       time.Time
	lines    strings.Builder
	followed []string
}

func watch() *watched {
	w := &watched{at: time.Unix(1_700_000_000, 0)}
	w.Registry = trouble.New(slog.New(slog.NewTextHandler(&w.lines, nil)), func() time.Time { return w.at },
		func(t *trouble.Trouble, on bool) {
			w.followed = append(w.followed, fmt.Sprint(t.Code, "/", t.Subject, " ", t.Cause, " ", on))
		})
	return w
}

// said returns the lines since the last call.
func (w *watched) said() []string {
	defer w.lines.Reset()
	return strings.Split(strings.TrimSpace(w.lines.String()), "\n")
}

var errRefused = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)

func TestRegistry_LogsOnceThatItBeginsAndOnceThatItEnds(t *testing.T) {
	w := watch()
	w.Note(down, "a", nil)
	for range 100 {
		w.Note(down, "a", errRefused, "tries", 7)
		w.at = w.at.Add(time.Second)
	}
	w.Note(down, "a", nil)
	w.Note(down, "a", nil)
	lines := w.said()
	if len(lines) != 2 {
		t.Fatalf("lines %q", lines)
	}
	for i, parts := range [][]string{
		{"ERROR", `"it is down"`, "server=a", "tries=7", "connection refused", `advice="start it"`},
		{"INFO", `"it is up"`, "server=a", "after=1m40s"}} {
		for _, part := range parts {
			if !strings.Contains(lines[i], part) {
				t.Errorf("%s lacks %s", lines[i], part)
			}
		}
	}
	if len(w.followed) != 101 || w.followed[0] != "down/a connection refused true" ||
		w.followed[100] != "down/a connection refused false" {
		t.Errorf("followed %d: %q", len(w.followed), w.followed[len(w.followed)-1])
	}
}

func TestRegistry_OneThatComesAndGoesIsLoggedEveryTenSeconds(t *testing.T) {
	w := watch()
	for range 100 {
		w.Note(down, "a", errRefused)
		w.Clear(down, "a")
		w.at = w.at.Add(time.Second)
	}
	if lines := w.said(); len(lines) != 20 {
		t.Errorf("%d lines in 100 s", len(lines))
	}
	w.Note(down, "a", errRefused)
	w.Note(down, "b", errRefused) // another subject is another matter
	if lines := w.said(); len(lines) != 2 {
		t.Errorf("lines %q", lines)
	}
}

func TestRegistry_AnotherReasonIsLoggedIfTheConditionAsksForIt(t *testing.T) {
	for c, want := range map[*trouble.Condition]int{odd: 2, down: 1} {
		w := watch()
		w.Note(c, "", errors.New("one"))
		w.Note(c, "", errors.New("two"))
		w.at = w.at.Add(10 * time.Second)
		w.Note(c, "", errors.New("two"))
		if lines := w.said(); len(lines) != want {
			t.Errorf("%s: lines %q", c.Code, lines)
		}
	}
}

func TestRegistry_ForgetEndsWithoutALine(t *testing.T) {
	w := watch()
	w.Note(down, "a", errRefused)
	w.Forget(down, "a")
	if lines := w.said(); len(lines) != 1 || w.On(down, "a") {
		t.Errorf("lines %q", lines)
	}
}

func TestRegistry_ListsWhatIsSet(t *testing.T) {
	w := watch()
	if got := w.Codes(); got == nil || len(got) != 0 {
		t.Errorf("codes %q of a node that is well", got)
	}
	since := w.at.Add(-time.Minute)
	w.Set(trouble.Trouble{Condition: odd, Since: since, Cause: "a reason"})
	w.Set(trouble.Trouble{Condition: down, Subject: "b", Since: w.at, Cause: "x"})
	w.Set(trouble.Trouble{Condition: down, Subject: "a", Since: w.at, Cause: "x"})
	w.Set(trouble.Trouble{Condition: odd, Since: w.at, Cause: "another"})
	if got := w.Codes(); !slices.Equal(got, []string{"down", "odd"}) {
		t.Errorf("codes %q", got)
	}
	all := w.Current()
	if len(all) != 3 || all[0].Subject != "a" || !all[2].Since.Equal(since) || all[2].Cause != "another" ||
		!w.On(down, "b") {
		t.Errorf("current %+v", all)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(w.Registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		count[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	if len(count) != 2 || count["down"] != 2 || count["odd"] != 1 {
		t.Errorf("metric %v", count)
	}
}

// Subjects are bounded: what has ended makes room, and what does not fit is not noted.
func TestRegistry_IsBounded(t *testing.T) {
	w := watch()
	for i := range 5000 {
		w.Note(down, fmt.Sprint("gone", i), errRefused)
		w.Clear(down, fmt.Sprint("gone", i))
	}
	for i := range 5000 {
		w.Note(down, fmt.Sprint("here", i), errRefused)
	}
	if n := len(w.Current()); n != 1000 {
		t.Errorf("%d subjects", n)
	}
	w.Clear(down, "here4999")
}

func TestRegistry_NilDiscards(t *testing.T) {
	var r *trouble.Registry
	r.Note(down, "", errRefused)
	r.Note(down, "", nil)
	r.Set(trouble.Trouble{Condition: down})
	r.Clear(down, "")
	r.Forget(down, "")
	if r.On(down, "") || len(r.Current()) > 0 || len(r.Codes()) > 0 {
		t.Error("a nil registry knows something")
	}
}

func TestRegistry_ManyAtOnce(t *testing.T) {
	w := watch()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 200 {
				subject := fmt.Sprint(n % 3)
				w.Note(down, subject, errRefused)
				w.On(down, subject)
				w.Codes()
				if i%2 == 0 {
					w.Clear(down, subject)
				}
			}
		})
	}
	wg.Wait()
	for n := range 3 {
		w.Clear(down, fmt.Sprint(n))
	}
	if len(w.Current()) != 0 {
		t.Errorf("current %v", w.Current())
	}
}

func TestDeclare_ATakenCodePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two conditions have one code")
		}
	}()
	trouble.Declare(trouble.Condition{Code: "down"})
}
