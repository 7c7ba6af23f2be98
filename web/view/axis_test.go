package view

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/history"
)

func TestValuesTo_ChoosesRoundSteps(t *testing.T) {
	for top, want := range map[float64]string{
		0: "0/s 0.2/s 0.4/s 0.6/s 0.8/s 1/s", 1: "0/s 0.2/s 0.4/s 0.6/s 0.8/s 1/s", 42.3: "0/s 10/s 20/s 30/s 40/s 50/s",
		2.1: "0/s 0.5/s 1/s 1.5/s 2/s 2.5/s", 100: "0/s 20/s 40/s 60/s 80/s 100/s", 101: "0/s 50/s 100/s 150/s",
		0.0028: "0/s 0.001/s 0.002/s 0.003/s", 9_100: "0/s 2,000/s 4,000/s 6,000/s 8,000/s 10,000/s",
	} {
		axis, words := ValuesTo(top), []string{}
		for _, tick := range axis {
			words = append(words, axis.words(tick))
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("up to %v: %s, want %s", top, got, want)
		}
	}
}

func TestValuesTo_AreFewRoundAndFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := math.Pow(10, rapid.Float64Range(-7, 9).Draw(t, "exponent"))
		axis := ValuesTo(top)
		if len(axis) < 4 || len(axis) > 6 {
			t.Fatalf("%d ticks up to %v", len(axis), top)
		}
		step := axis[1]
		if axis[0] != 0 || axis.Top() < top*(1-1e-9) || axis.Top() >= top+step {
			t.Fatalf("%v for %v", axis, top)
		}
		digit := step / math.Pow(10, math.Floor(math.Log10(step)+1e-9))
		if d := math.Round(digit); math.Abs(d-digit) > 1e-6 || d != 1 && d != 2 && d != 5 && d != 10 {
			t.Fatalf("steps of %v", step)
		}
		for i, tick := range axis {
			if math.Abs(tick-float64(i)*step) > 1e-9*top || len(axis.words(tick)) > 18 {
				t.Fatalf("tick %d of %v is %s", i, axis, axis.words(tick))
			}
		}
	})
}

func TestTimes_ChooseRoundTicks(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		back time.Duration
		want string
	}{
		{5 * time.Minute, "11:55 UTC 11:56 11:57 11:58 11:59 12:00"},
		{time.Minute, "11:59:00 UTC 11:59:10 11:59:20 11:59:30 11:59:40 11:59:50 12:00:00"},
		{time.Hour, "11:00 UTC 11:10 11:20 11:30 11:40 11:50 12:00"},
		{24 * time.Hour, "12:00 UTC 18:00 Nov 21 06:00 12:00"},
		{7 * history.Day, "Nov 15 Nov 16 Nov 17 Nov 18 Nov 19 Nov 20 Nov 21"},
		{30 * history.Day, "Oct 26 Nov 2 Nov 9 Nov 16"},
		{365 * history.Day, "Jan 2026 Mar 2026 May 2026 Jul 2026 Sep 2026 Nov 2026"},
		{4000 * history.Day, "2016 2018 2020 2022 2024 2026"},
	} {
		axis, words := Times{From: noon.Add(-c.back), To: noon}, []string{}
		for i, at := range axis.Ticks() {
			words = append(words, axis.words(i, at))
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%v: %s, want %s", c.back, got, c.want)
		}
	}
}

func TestTimes_AreFewRoundAndWithinTheRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := widths[rapid.IntRange(0, len(widths)-1).Draw(t, "width")]
		points := rapid.Int64Range(1, int64(w.length/w.width)).Draw(t, "points")
		from := time.Unix(rapid.Int64Range(0, 200_000_000_000).Draw(t, "from"), 0).UTC().Truncate(w.width)
		axis := Times{From: from, To: from.Add(time.Duration(points) * w.width)}
		list := axis.Ticks()
		if len(list) < 3 || len(list) > 7 {
			t.Fatalf("%d ticks of %s to %s: %v", len(list), axis.From, axis.To, list)
		}
		step := axis.step()
		for _, at := range list {
			round := step.months == 0 && at.Equal(at.Truncate(step.length)) ||
				step.months > 0 && at.Day() == 1 && at.Equal(at.Truncate(history.Day))
			if at.Before(axis.From) || at.After(axis.To) || !round {
				t.Fatalf("%s with steps %+v in %s to %s", at, step, axis.From, axis.To)
			}
		}
	})
}

func TestTimes_LabelsAtTheEndsStayWithinTheChart(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	axis, kinds := Times{From: noon.Add(-5 * time.Minute), To: noon}, []string{}
	for i, at := range axis.Ticks() {
		kinds = append(kinds, axis.kind(i, at))
	}
	if got := strings.Join(kinds, ", "); got != "start, middle odd, middle, middle odd, middle, end odd" {
		t.Error(got)
	}
}
