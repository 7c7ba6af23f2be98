package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/bench/process"
)

func TestOutage_AnswersAgainstTheFailModeAreWrong(t *testing.T) {
	for n, mode := range failModes {
		for _, c := range []struct {
			a    answer
			want bool
		}{
			{answer{verdict: decided, allowed: true}, true},
			{answer{verdict: decided}, false},
			{answer{verdict: byFailMode, mode: mode, allowed: mode != "closed"}, true},
			{answer{verdict: byFailMode, mode: mode, allowed: mode == "closed"}, false},
			{answer{verdict: byFailMode, mode: failModes[(n+1)%3], allowed: mode != "closed"}, false},
			{answer{verdict: overloaded}, false},
			{answer{verdict: failed}, true},
		} {
			c.a.n = n + 3
			if got := asTheFailModeSays(&c.a); got != c.want {
				t.Errorf("%s: %+v: %v", mode, c.a, got)
			}
		}
	}
}

func TestStorm_CountsTheResultsOfABatch(t *testing.T) {
	y := &tally{}
	allowed := y.addBatch([]byte(`{"results":[`+
		`{"allowed":true,"status":200,"degraded":null,"limits":[{"rule":"a","key":"user:1","allowed":true}]},`+
		`{"allowed":false,"status":429,"degraded":null,"limits":[{"rule":"a","key":"user:1","allowed":false}]},`+
		`{"allowed":true,"status":200,"degraded":"open","limits":[{"rule":"a","allowed":true,"degraded":"open"}]}]}`),
		time.Second)
	if allowed != 2 || y.sent != 3 || y.verdicts != [4]int{decided: 2, byFailMode: 1} || len(y.took) != 1 {
		t.Errorf("%d allowed, %+v", allowed, y)
	}
}

func TestReport_NamesMissedTargets(t *testing.T) {
	rows := []row{
		{name: "calm", measured: measured{tally: &tally{length: time.Second, sent: 10, verdicts: [4]int{9, 1}, during: 9}},
			goals: []goal{atMost("fail modes %", 10, 10)}},
		{name: "busy", measured: measured{&tally{length: time.Second, unplaced: 3, during: 5,
			lag: []time.Duration{7 * ms}}, counters{breaker: 2}}, capacity: 10,
			goals: []goal{atLeast("decided", 0.5, 0.9), atMost("fail modes %", 0.10009, 0.1), atMost("breaker opened", 2, 0)}},
	}
	want := "busy: decided 0.5, at least 0.9\nbusy: fail modes % 0.1, at most 0.1\nbusy: breaker opened 2, at most 0"
	if got := strings.Join(missed(rows), "\n"); got != want {
		t.Errorf("got %s", got)
	}
	var b bytes.Buffer
	report(&b, rows)
	for _, want := range []string{
		"| calm | 10 | 10.00 % | 0.00 % (0 by the node) | 0 | 0 | 9 | – | – | fail modes % 10, at most 10 |\n",
		"| 5 (0.50 × 10) |", "3 found no connection; 1 % were sent more than 7 ms late",
		"**missed:** decided 0.5, at least 0.9;",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestChoose_KnowsEveryPart(t *testing.T) {
	if all, err := choose(""); err != nil || len(all) != len(parts) {
		t.Errorf("got %d parts, %v", len(all), err)
	}
	if two, err := choose("open, outage"); err != nil || len(two) != 2 || two[1].name != "outage" {
		t.Errorf("got %v, %v", two, err)
	}
	if _, err := choose("open,nothing"); err == nil {
		t.Error("an unknown part is accepted")
	}
}

// While it swallows, neither old nor new connections get an answer, and those stay dead.
func TestProxy_SwallowsAndReturns(t *testing.T) {
	echo, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	p, err := startProxy(t.Context(), echo.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ask := func(c net.Conn, patience time.Duration) error {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 1))
		return err
	}
	old := dial()
	if err := ask(old, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	p.swallow(true)
	during := dial()
	for name, c := range map[string]net.Conn{"an old": old, "a new": during} {
		if ask(c, 50*time.Millisecond) == nil {
			t.Errorf("%s connection got an answer", name)
		}
	}
	p.swallow(false)
	if err := ask(dial(), 10*time.Second); err != nil {
		t.Errorf("after the return: %v", err)
	}
	if ask(old, 50*time.Millisecond) == nil || ask(during, 50*time.Millisecond) == nil {
		t.Error("a dead connection lives again")
	}
}

// The process is stopped within a period, and goes on at the end.
func TestPulse_StopsAndLetsGo(t *testing.T) {
	p, err := process.Start(t.Context(), filepath.Join(t.TempDir(), "log"), nil, "sleep", "60")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	ended, ran := make(chan struct{}), make(chan float64, 1)
	go func() { ran <- pulse(p, 2*ms, ended) }()
	for state(t, p) != "T" {
		if t.Context().Err() != nil {
			t.Fatal("the process was never stopped")
		}
	}
	close(ended)
	if part := <-ran; part <= 0 || part >= 1 {
		t.Errorf("it ran %v of the time", part)
	}
	if s := state(t, p); s == "T" {
		t.Error("the process is still stopped")
	}
}

// state is that of a process, such as S or T.
func state(t *testing.T, p *process.Process) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid()), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return after[:1]
}
