package api

import (
	"net/http"
	"slices"
	"testing"

	"sluice/limiter"
	"sluice/rules"
)

// slowed is a rule with 10 units a minute that delays from the fourth on.
func slowed(name, algorithm string, step int64) rules.Rule {
	r := aMinute(name, 10)
	r.Algorithm, r.TarpitMS = algorithm, new(int64(700))
	r.Delay = &rules.Delay{After: new(int64(3)), StepMS: step, MostMS: 4 * step}
	return r
}

// delayed are the algorithms that can have a delay.
func delayed() (names []string) {
	for _, a := range limiter.Algorithms() {
		if t := a.Traits(); !t.Queues && !t.Slots {
			names = append(names, t.Name)
		}
	}
	return names
}

func TestDelay_SlowsDownBeforeItDenies(t *testing.T) {
	for _, algorithm := range delayed() {
		t.Run(algorithm, func(t *testing.T) {
			onBothStores(t, nil, []rules.Rule{slowed("slow", algorithm, 500), aMinute("other", 20)},
				func(t *testing.T, f *fixture) {
					check := func(weight string) checkReply { return f.check(`{"user":"42","weight":` + weight + `}`) }
					wait := func(what string, r checkReply, least, most int64) {
						if r.DelayMS == nil || *r.DelayMS < least || *r.DelayMS > most {
							t.Errorf("%s: %+v, want a delay of %d to %d ms", what, r, least, most)
						}
					}
					// A bucket drains while the test runs, and says so.
					wait("what is free", check("3"), 0, 0)
					r := check("1")
					wait("the fourth unit", r, 1, 500)
					if r.Limits[0].DelayMS != *r.DelayMS || r.Limits[1].DelayMS != 0 {
						t.Errorf("the limits: %+v", r.Limits)
					}
					wait("a look", check("0"), 0, 0)
					wait("the longest", check("6"), 2000, 2000)
					r = check("9")
					if wait("a denial", r, 700, 700); r.Allowed || r.Limits[0].DelayMS != 700 {
						t.Errorf("%+v", r)
					}
				})
		})
	}
}

func TestDelay_TheLongestOfTheEnforcedRules(t *testing.T) {
	shadow := slowed("shadow", "fixed_window", 5000)
	shadow.Mode = "shadow"
	onBothStores(t, nil, []rules.Rule{slowed("short", "fixed_window", 100), slowed("long", "fixed_window", 300), shadow},
		func(t *testing.T, f *fixture) {
			if r := f.check(`{"user":"42","weight":5,"request_id":"a"}`); *r.DelayMS != 600 {
				t.Errorf("%d ms, want 600", *r.DelayMS)
			}
			if r := f.check(`{"user":"42","weight":5,"request_id":"a"}`); !r.Replayed || *r.DelayMS != 600 {
				t.Errorf("the stored answer: %+v", r)
			}
			if got := f.post("/ratelimit/charge", `{"user":"42","weight":1}`).reply(); *got.DelayMS != 0 {
				t.Errorf("a charge: %+v", got)
			}
		})
}

func TestDelay_FailModesHaveNone(t *testing.T) {
	for _, mode := range []string{"open", "closed", "local"} {
		r := slowed("slow", "fixed_window", 500)
		r.FailMode = mode
		f := newFixture(t, []rules.Rule{r})
		f.store.fail(errAway)
		for range 12 {
			if a := f.check(`{"user":"42"}`); a.DelayMS != nil && *a.DelayMS > 0 {
				t.Fatalf("%s: %+v", mode, a)
			}
		}
	}
}

func TestDelay_BadInput(t *testing.T) {
	f := newFixture(t, nil)
	for members, fields := range map[string][]string{
		`"delay":{}`:                                        {"delay.after", "delay.step_ms"},
		`"delay":{"after":1}`:                               {"delay.step_ms"},
		`"delay":{"step_ms":1}`:                             {"delay.after"},
		`"delay":{"after":-1,"step_ms":0}`:                  {"delay.after", "delay.step_ms"},
		`"delay":{"after":1,"step_ms":1,"most_ms":0}`:       {"delay.most_ms"},
		`"delay":{"after":1,"step_ms":1,"most_ms":3600001}`: {"delay.most_ms"},
		`"delay":{"after":"1","step_ms":1.5}`:               {"delay.after", "delay.step_ms"},
		`"delay":{"after":1,"step_ms":1,"most":1}`:          {"delay.most"},
		`"delay":[]`: {"delay"},
		`"delay":{"after":1,"step_ms":1},"algorithm":"leaky_queue"`: {"delay"},
		`"delay":{"after":1,"step_ms":1},"hot_keys":"leased"`:       {"hot_keys"},
		`"tarpit_ms":-1`:                     {"tarpit_ms"},
		`"tarpit_ms":10001`:                  {"tarpit_ms"},
		`"tarpit_ms":"1"`:                    {"tarpit_ms"},
		`"tarpit_ms":1,"over_limit":"defer"`: {"tarpit_ms"},
		`"tarpit_ms":1,"hidden":true`:        {"hidden"},
	} {
		a := f.do(http.MethodPost, "/ratelimit/rules", `{"name":"r","scope":"user","limit":1,"window_ms":1000,`+members+`}`)
		if a.status != 422 || !slices.Equal(slices.Compact(a.fields()), fields) {
			t.Errorf("%s: %d %s", members, a.status, a.body)
		}
	}
}
