package match

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
)

func scheduled(zone string, ws ...rules.ScheduleWindow) rules.Rule {
	return rule(1, func(r *rules.Rule) {
		r.Scope, r.Limit, r.Schedule = "global", 100, &rules.Schedule{Zone: zone, Windows: ws}
		r.Tiers = map[string]rules.TierLimit{"pro": {Limit: ptr(int64(1000))}, "staff": {Unlimited: true}}
	})
}

// limitAt is what a set holds a request of a tier to, -1 for no limit.
func limitAt(s *Set, tier string, now time.Time) int64 {
	ms := s.Match(&Descriptor{Tier: tier}, 1, now, nil)
	if len(ms) == 0 {
		return -1
	}
	return ms[0].Limit.Count
}

func TestSchedule_WorkedExample(t *testing.T) {
	s := compile(t, scheduled("Europe/Berlin",
		rules.ScheduleWindow{Days: []string{"mon", "tue", "wed", "thu", "fri"}, From: "18:00", To: "22:00",
			Percent: ptr(int64(50))},
		rules.ScheduleWindow{Days: []string{"sat"}, From: "23:00", To: "01:00", Limit: ptr(int64(7))},
	))
	for at, want := range map[string][3]int64{
		"2026-11-20T16:59:59.999Z": {100, 1000, -1}, // Friday 17:59:59.999 in Berlin
		"2026-11-20T17:00:00Z":     {50, 500, -1},
		"2026-11-20T20:59:59.999Z": {50, 500, -1},
		"2026-11-20T21:00:00Z":     {100, 1000, -1},
		"2026-11-21T17:00:00Z":     {100, 1000, -1}, // Saturday
		"2026-11-21T22:00:00Z":     {7, 1000, -1},
		"2026-11-21T23:59:59Z":     {7, 1000, -1}, // Sunday 00:59:59
		"2026-11-22T00:00:00Z":     {100, 1000, -1},
		"2026-11-22T22:00:00Z":     {100, 1000, -1}, // Sunday night
		"2026-07-03T16:00:00Z":     {50, 500, -1},   // in summer an hour earlier
	} {
		now, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]int64{limitAt(s, "", now), limitAt(s, "pro", now), limitAt(s, "staff", now)}; got != want {
			t.Errorf("%s: got %v, want %v", at, got, want)
		}
	}
}

func TestSchedule_PercentRoundsDownButNotToNothing(t *testing.T) {
	for percent, want := range map[int64][2]int64{0: {0, 0}, 1: {1, 1}, 50: {1, 4}, 99: {2, 8}, 100: {3, 9},
		1000: {30, 90}} {
		r := rule(1, func(r *rules.Rule) {
			r.Scope, r.Algorithm, r.Limit, r.Burst = "global", "token_bucket", 3, ptr(int64(9))
			r.Schedule = &rules.Schedule{Windows: []rules.ScheduleWindow{{From: "00:00", To: "24:00", Percent: &percent}}}
		})
		m := compile(t, r).Match(&Descriptor{}, 1, noon, nil)[0]
		if m.Limit.Count != want[0] || m.Limit.Burst != want[1] || m.Key != "{global}|1|lv" {
			t.Errorf("%d %%: got %+v", percent, m)
		}
	}
}

var weekdayNames = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// The oracle knows windows only as a person does: it reads the clock on the wall.
func oracleWindow(ws []rules.ScheduleWindow, zone *time.Location, at time.Time) int {
	local := at.In(zone)
	today := strings.ToLower(local.Format("Mon"))
	yesterday := strings.ToLower(local.Weekday().String()[:3])
	for i, d := range weekdayNames {
		if d == today {
			yesterday = weekdayNames[(i+6)%7]
		}
	}
	clock := local.Format("15:04")
	on := func(w rules.ScheduleWindow, day string) bool {
		return len(w.Days) == 0 || strings.Contains(strings.Join(w.Days, " "), day)
	}
	for i, w := range ws {
		wraps := w.To <= w.From
		if !wraps && on(w, today) && w.From <= clock && clock < w.To ||
			wraps && on(w, today) && w.From <= clock ||
			wraps && on(w, yesterday) && clock < w.To {
			return i
		}
	}
	return -1
}

// clockChanges are places and years in which clocks change in odd ways, or never.
var clockChanges = []struct {
	zone string
	days []string
}{
	{"Europe/Berlin", []string{"2026-03-29", "2026-10-25"}},
	{"America/New_York", []string{"2026-03-08", "2026-11-01"}},
	{"Australia/Lord_Howe", []string{"2026-04-05", "2026-10-04"}}, // half an hour
	{"Asia/Kolkata", []string{"2026-06-01"}},
	{"Africa/Cairo", []string{"2026-04-24", "2026-10-30"}}, // at midnight
	{"Pacific/Apia", []string{"2011-12-30"}},               // a day that never was
}

// Each minute of three days around a clock change, and the milliseconds beside
// it, the compiled schedule says what the oracle says, whatever was asked before.
func TestSchedule_AgreesWithTheWallClockMinuteByMinute(t *testing.T) {
	clock := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%02d:%02d", rapid.IntRange(0, 23).Draw(t, "hour"),
			rapid.SampledFrom([]int{0, 1, 30, 45, 59}).Draw(t, "minute"))
	})
	rapid.Check(t, func(t *rapid.T) {
		place := rapid.SampledFrom(clockChanges).Draw(t, "place")
		zone, err := time.LoadLocation(place.zone)
		if err != nil {
			t.Fatal(err)
		}
		ws := make([]rules.ScheduleWindow, rapid.IntRange(1, 4).Draw(t, "windows"))
		for i := range ws {
			ws[i] = rules.ScheduleWindow{From: clock.Draw(t, "from"), To: rapid.OneOf(clock, rapid.Just("24:00")).Draw(t, "to"),
				Limit: ptr(int64(i))}
			for _, d := range weekdayNames {
				if rapid.Bool().Draw(t, d) {
					ws[i].Days = append(ws[i].Days, d)
				}
			}
		}
		r := scheduled(place.zone, ws...)
		s, err := Compile([]rules.Rule{r}, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		start, err := time.Parse("2006-01-02", rapid.SampledFrom(place.days).Draw(t, "day"))
		if err != nil {
			t.Fatal(err)
		}
		start = start.Add(-36 * time.Hour)
		backwards := rapid.Bool().Draw(t, "backwards")
		for m := range 3 * 24 * 60 {
			if backwards {
				m = 3*24*60 - m
			}
			at := start.Add(time.Duration(m) * time.Minute)
			for _, at := range []time.Time{at, at.Add(-time.Millisecond)} {
				want := int64(100)
				if w := oracleWindow(ws, zone, at); w >= 0 {
					want = int64(w)
				}
				if got := limitAt(s, "", at); got != want {
					t.Fatalf("%s (%s in %s): limit %d, want %d", at.Format(time.RFC3339Nano), at.In(zone), place.zone, got, want)
				}
			}
		}
	})
}

// A skipped time never matches, a repeated one matches twice.
func TestSchedule_SkippedAndRepeatedHours(t *testing.T) {
	s := compile(t, scheduled("Europe/Berlin", rules.ScheduleWindow{From: "02:00", To: "03:00", Limit: ptr(int64(1))}))
	count := func(day string) (minutes int) {
		start, err := time.ParseInLocation("2006-01-02", day, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		for m := range 24 * 60 {
			if limitAt(s, "", start.Add(time.Duration(m-120)*time.Minute)) == 1 {
				minutes++
			}
		}
		return minutes
	}
	for day, want := range map[string]int{"2026-03-29": 0, "2026-10-25": 120, "2026-06-01": 60} {
		if got := count(day); got != want {
			t.Errorf("%s: %d minutes, want %d", day, got, want)
		}
	}
}

// Between two changes a check costs no memory.
func TestSchedule_AMatchAllocatesNothing(t *testing.T) {
	s := compile(t, scheduled("Europe/Berlin", rules.ScheduleWindow{From: "09:00", To: "17:00", Percent: ptr(int64(50))}))
	morning := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC) // 09:00 in Berlin
	if w, until := s.At(0).PhaseAt(morning); w != 0 || !until.Equal(morning.Add(8*time.Hour)) {
		t.Errorf("phase %d until %s", w, until)
	}
	d := Descriptor{}
	dst := make([]Match, 0, 1)
	if n := testing.AllocsPerRun(100, func() { dst = s.Match(&d, 1, morning, dst[:0]) }); n > 0 {
		t.Errorf("%v allocations a match", n)
	}
}

func TestLifeSpan_BoundsAreInclusiveAndExclusive(t *testing.T) {
	from, until := noon, noon.Add(time.Hour)
	s := compile(t, rule(1, func(r *rules.Rule) { r.Scope, r.ActiveFrom, r.ActiveUntil = "global", &from, &until }))
	for d, want := range map[time.Duration]bool{-time.Millisecond: false, 0: true, time.Hour - time.Millisecond: true,
		time.Hour: false} {
		at := noon.Add(d)
		if got := limitAt(s, "", at) >= 0; got != want {
			t.Errorf("%s: applies %v, want %v", d, got, want)
		}
		con := s.Explain(&Descriptor{}, 1, at)[0]
		if con.Matched != want || !want && con.Reason != ReasonLifeSpan {
			t.Errorf("%s: explained %+v", d, con)
		}
	}
	if got := s.Explain(&Descriptor{}, 1,
		noon.Add(-time.Hour))[0].Sentence; got != "The rule is not in force before 2026-11-21T12:00:00Z." {
		t.Errorf("got %q", got)
	}
}

func TestTiers_ShareTheBucketAndFallBackToTheRulesOwnLimit(t *testing.T) {
	s := compile(t, rule(1, func(r *rules.Rule) {
		r.Tiers = map[string]rules.TierLimit{"free": {Limit: ptr(int64(2))}, "staff": {Unlimited: true}}
	}))
	for tier, want := range map[string]int64{"free": 2, "gold": 5, "": 5} {
		ms := s.Match(&Descriptor{User: "42", Tier: tier}, 1, noon, nil)
		if len(ms) != 1 || ms[0].Limit.Count != want || ms[0].Key != "{user:42}|1|sc" || ms[0].Rule.Limit.Count != 5 {
			t.Errorf("tier %q: got %+v", tier, ms)
		}
	}
	if got := s.Match(&Descriptor{User: "42", Tier: "staff"}, 1, noon, nil); len(got) != 0 {
		t.Errorf("unlimited: got %+v", got)
	}
	con := s.Explain(&Descriptor{User: "42", Tier: "staff"}, 1, noon)[0]
	if con.Matched || con.Reason != ReasonUnlimited || con.Sentence != `The rule does not limit the tier "staff".` {
		t.Errorf("explained %+v", con)
	}
}

func TestCandidate_HasBucketsOfItsOwn(t *testing.T) {
	s := compile(t, rule(17, func(r *rules.Rule) {
		r.Algorithm, r.Limit, r.Candidate = "fixed_window", 5,
			&rules.Candidate{Limit: ptr(int64(3)), WindowMS: ptr(int64(500)),
				Algorithm: "gcra"}
	}), rule(18, func(r *rules.Rule) {
		r.Scope, r.Algorithm, r.WindowMS, r.Calendar = "global", "fixed_window", 0, &rules.Calendar{Every: rules.EveryDay}
		r.Candidate = &rules.Candidate{Limit: ptr(int64(3))}
		r.Normalize()
	}))
	ms := s.Match(&Descriptor{User: "42"}, 1, noon, nil)
	key, l, ok := ms[0].Candidate()
	if !ok || key != "{user:42}|17.c|ga" ||
		l != (limiter.Limit{Algorithm: limiter.GCRA, Count: 3, Window: 500, Burst: 3}) {
		t.Errorf("got %q %+v", key, l)
	}
	key, l, ok = ms[1].Candidate()
	midnight := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC).UnixMilli()
	if !ok || key != "{global}|18.c|fw" || l.Count != 3 || l.Anchor != midnight || l.Window != 86_400_000 ||
		ms[1].Limit.Anchor != midnight {
		t.Errorf("with the calendar: got %q %+v", key, l)
	}
}

func TestPromote_PutsTheTrialInForceOnTheSameBucket(t *testing.T) {
	r := rule(1, func(r *rules.Rule) {
		r.Algorithm, r.Burst = "token_bucket", ptr(int64(9))
		r.Candidate = &rules.Candidate{Limit: ptr(int64(3)), WindowMS: ptr(int64(500))}
	})
	before := compile(t, r).Match(&Descriptor{User: "42"}, 1, noon, nil)[0]
	_, trial, _ := before.Candidate()
	if err := r.Promote(); err != nil || r.Candidate != nil {
		t.Fatalf("%v, %+v", err, r.Candidate)
	}
	after := compile(t, r).Match(&Descriptor{User: "42"}, 1, noon, nil)[0]
	if after.Limit != trial || after.Key != before.Key {
		t.Errorf("got %+v, want %+v on %s", after, trial, before.Key)
	}
	if err := r.Promote(); err == nil {
		t.Error("promoted with nothing to promote")
	}
	shadow := rule(1, func(r *rules.Rule) { r.Mode = rules.ModeShadow })
	if err := shadow.Promote(); err != nil || shadow.Mode != rules.ModeEnforce {
		t.Errorf("shadow: %v, %s", err, shadow.Mode)
	}
}

// A month's consumption stands until its end and not a millisecond longer, and a
// store whose clock is a little off counts in the period that its clock is in.
func TestCalendar_ConsumptionEndsWithThePeriod(t *testing.T) {
	s := compile(t, rule(1, func(r *rules.Rule) {
		r.Scope, r.Algorithm, r.WindowMS, r.Limit = "global", "fixed_window", 0, 5
		r.Calendar = &rules.Calendar{Every: rules.EveryMonth, Zone: "Europe/Berlin", AnchorDay: 31}
		r.Normalize()
	}))
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	january, february, march := time.Date(2026, 1, 31, 0, 0, 0, 0, zone), time.Date(2026, 2, 28, 0, 0, 0, 0, zone),
		time.Date(2026, 3, 31, 0, 0, 0, 0, zone)
	limit := func(node time.Time) limiter.Limit { return s.Match(&Descriptor{}, 1, node, nil)[0].Limit }
	var state limiter.State
	take := func(node, store time.Time, weight int64) limiter.Decision {
		asks, out := []limiter.Ask{{Key: "k", Limit: limit(node), Weight: weight}}, make([]limiter.Decision, 1)
		limiter.Decide(limiter.OpTake, asks, "", []*limiter.State{&state}, store.UnixMilli(), make([]bool, 1), out,
			make([]limiter.Charged, 1))
		return out[0]
	}
	if d := take(january, january, 5); !d.Allowed || d.Reset != february.Sub(january).Milliseconds() {
		t.Fatalf("first: %+v", d)
	}
	end := february.Add(-time.Millisecond)
	if d := take(end, end, 1); d.Allowed || d.RetryAfter != 1 {
		t.Errorf("last millisecond: %+v", d)
	}
	// The node is in the next period already, the store not yet, and the other way round.
	if d := take(february, end.Add(-20*time.Millisecond), 1); d.Allowed || d.RetryAfter != 21 {
		t.Errorf("store behind: %+v", d)
	}
	if d := take(end.Add(-20*time.Millisecond), february, 2); !d.Allowed {
		t.Errorf("store ahead: %+v", d)
	}
	if d := take(february, february, 3); !d.Allowed || d.Remaining != 0 || d.Reset != march.Sub(february).Milliseconds() {
		t.Errorf("new period: %+v", d)
	}
	if d := take(march.Add(-time.Millisecond), march.Add(-time.Millisecond), 1); d.Allowed {
		t.Errorf("end of the second period: %+v", d)
	}
	if d := take(march, march, 5); !d.Allowed {
		t.Errorf("third period: %+v", d)
	}
}

func TestCalendar_DaysOfClockChangesHaveTheirTrueLength(t *testing.T) {
	s := compile(t, rule(1, func(r *rules.Rule) {
		r.Scope, r.Algorithm, r.WindowMS, r.Calendar = "global", "fixed_window", 0,
			&rules.Calendar{Every: rules.EveryDay, Zone: "Europe/Berlin"}
		r.Normalize()
	}))
	for day, hours := range map[string]int64{"2026-03-29": 23, "2026-10-25": 25, "2026-06-01": 24} {
		at, err := time.Parse(time.RFC3339, day+"T12:00:00Z")
		if err != nil {
			t.Fatal(err)
		}
		m := s.Match(&Descriptor{}, 1, at, nil)[0]
		if m.Limit.Window != hours*3_600_000 || m.Limit.Validate() != nil {
			t.Errorf("%s: window %d ms", day, m.Limit.Window)
		}
	}
}
