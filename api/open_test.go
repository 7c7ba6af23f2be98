package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/api/decide"
	"sluice/internal/fleet"
	"sluice/internal/testenv"
	"sluice/limiter/redisstore"
	"sluice/rules"
)

// onLists runs a test on memory and on two nodes on Redis and a cluster, with a list of open reservations. In memory
// the two are one.
func onLists(t *testing.T, rs []rules.Rule, test func(t *testing.T, a, b *fixture)) {
	t.Helper()
	for kind, url := range map[string]func() string{"memory": nil,
		"redis":   func() string { return testenv.SharedRedis(t).URL() },
		"cluster": func() string { return testenv.SharedCluster(t).URL() },
	} {
		t.Run(kind, func(t *testing.T) {
			prefix := "open" + strings.Repeat("z", int(prefixes.Add(1))) + ":"
			node := func() (f *fixture) {
				f = pooled(t, "memory", nil, rs, sealing, func(o *decide.CheckerOptions, _ *Deps) {
					if url == nil {
						o.Open = decide.NewOpenReservations(decide.NewReservationList(o.Now), nil)
						return
					}
					client, err := redisstore.NewClient(url(), redisstore.ClientOptions{DialTimeout: patience, Timeout: patience})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = client.Close() })
					list, err := fleet.NewReservations(fleet.ReservationOptions{Client: client, Prefix: prefix,
						Clock: func() int64 { return f.now.Load() }})
					if err != nil {
						t.Fatal(err)
					}
					o.Open = decide.NewOpenReservations(list, nil)
					s, err := redisstore.New(redisstore.Options{Client: client, Prefix: prefix,
						Clock: func() int64 { return f.now.Load() }, MaxWait: patience, ProbeLimit: patience})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = s.Close() })
					o.Store.(*faultStore).Store = s
				})
				return f
			}
			if a := node(); url == nil {
				test(t, a, a)
			} else {
				test(t, a, node())
			}
		})
	}
}

// advance moves the clocks of both nodes.
func advance(a, b *fixture, ms int64) {
	a.now.Add(ms)
	if a != b {
		b.now.Add(ms)
	}
}

// twoLevels are a budget by a field in an hour, and a limit of requests.
func twoLevels() []rules.Rule {
	tokens, calls := perUser("tokens", 10_000), perUser("requests", 100)
	tokens.WeightField, tokens.WindowMS, tokens.Algorithm = new("tokens"), 86_400_000, "fixed_window"
	calls.WindowMS, calls.Algorithm = 86_400_000, "fixed_window"
	return []rules.Rule{tokens, calls}
}

const reserveTokens = `{"user":"42","fields":{"tokens":1000},"ttl_ms":60000%s}`

// holds is what remains of the tokens and the requests.
func (f *fixture) holds() string {
	f.t.Helper()
	var out []string
	for _, l := range f.check(`{"user":"42","fields":{"tokens":0},"weight":0}`).Limits {
		out = append(out, fmt.Sprint(*l.Remaining))
	}
	return strings.Join(out, " ")
}

func TestReservation_IsRefundedOnceByAnotherNode(t *testing.T) {
	for onExpire, want := range map[string]string{`"refund"`: "10000 100", `{"percent":20}`: "9800 99",
		`"keep"`: "9000 99"} {
		t.Run(onExpire, func(t *testing.T) {
			onLists(t, twoLevels(), func(t *testing.T, gone, other *fixture) {
				r := gone.post("/ratelimit/reserve", fmt.Sprintf(reserveTokens, `,"on_expire":`+onExpire)).reply()
				advance(gone, other, 60_000)
				other.checker.ExpireReservations(t.Context())
				if got := other.holds(); got != "9000 99" {
					t.Errorf("at the end, before the margin: %s", got)
				}
				advance(gone, other, 1500)
				for range 3 {
					other.checker.ExpireReservations(t.Context())
					advance(gone, other, 3000)
				}
				if got := other.holds(); got != want {
					t.Errorf("left %s, want %s", got, want)
				}
				late := other.do(http.MethodPost, "/ratelimit/settle", settleBody(r.Reservation, `"fields":{"tokens":10}`))
				if late.want(http.StatusGone); onExpire != `"keep"` && !strings.Contains(late.body, "percent of the estimate") {
					t.Errorf("a late settle: %s", late.body)
				}
				if got := other.holds(); got != want {
					t.Errorf("after the late settle: %s, want %s", got, want)
				}
			})
		})
	}
}

func TestReservation_SettledInTimeIsNotRefunded(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		r := a.post("/ratelimit/reserve", fmt.Sprintf(reserveTokens, `,"on_expire":"refund"`)).reply()
		b.settle(r.Reservation, `"fields":{"tokens":300}`)
		for range 30 {
			advance(a, b, 5000)
			a.checker.ExpireReservations(t.Context())
			b.checker.ExpireReservations(t.Context())
		}
		if got := a.holds(); got != "9700 99" {
			t.Errorf("left %s", got)
		}
	})
}

func TestReservation_RenewedLivesOnAndGrows(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		r := a.post("/ratelimit/reserve", fmt.Sprintf(reserveTokens, `,"on_expire":"refund"`)).reply()
		token := r.Reservation
		for i := range 10 {
			advance(a, b, 50_000)
			a.checker.ExpireReservations(t.Context())
			body := fmt.Sprintf(`{"reservation":%q,"ttl_ms":60000,"more":{"fields":{"tokens":500}}}`, token)
			first := b.post("/ratelimit/renew", body).reply()
			again := b.post("/ratelimit/renew", body).reply() // the answer was lost
			if !first.Allowed || !again.Allowed || again.Reservation == "" {
				t.Fatalf("renewal %d: %s", i, body)
			}
			if token = again.Reservation; a.holds() != fmt.Sprintf("%d 99", 9000-500*(i+1)) {
				t.Fatalf("after renewal %d: %s", i, a.holds())
			}
		}
		much := b.post("/ratelimit/renew", fmt.Sprintf(`{"reservation":%q,"more":{"fields":{"tokens":4001}}}`, token)).reply()
		if much.Allowed || much.Reservation != "" || a.holds() != "4000 99" {
			t.Errorf("more than fits: allowed %v, left %s", much.Allowed, a.holds())
		}
		got := b.settle(token, `"fields":{"tokens":1700}`)
		if !got.Allowed || *got.Refunded != 4300 || a.holds() != "8300 99" {
			t.Errorf("settled: refunded %d, left %s", *got.Refunded, a.holds())
		}
		b.do(http.MethodPost, "/ratelimit/renew", fmt.Sprintf(`{"reservation":%q}`, token)).want(http.StatusGone)
	})
}

func TestReservation_OfARenewalThatNobodySettlesComesBackWhole(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		r := a.post("/ratelimit/reserve", fmt.Sprintf(reserveTokens, `,"on_expire":{"percent":50}`)).reply()
		b.post("/ratelimit/renew", fmt.Sprintf(`{"reservation":%q,"more":{"fields":{"tokens":500}}}`, r.Reservation)).reply()
		advance(a, b, 62_000)
		b.checker.ExpireReservations(t.Context())
		if got := a.holds(); got != "9250 99" {
			t.Errorf("left %s, want half of 1500 back, and half of one request rounded up", got)
		}
	})
}

// The caller repeats a reserve whose answer it lost, while another of its threads has renewed the reservation.
func TestReservation_RepeatedAfterItsRenewalStaysRenewed(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		reserve := fmt.Sprintf(reserveTokens, `,"on_expire":"refund","request_id":"job"`)
		r := a.post("/ratelimit/reserve", reserve).reply()
		advance(a, b, 1000)
		renew := fmt.Sprintf(`{"reservation":%q,"ttl_ms":60000,"more":{"fields":{"tokens":500}}}`, r.Reservation)
		if got := b.post("/ratelimit/renew", renew).reply(); !got.Allowed {
			t.Fatal("the renewal was denied")
		}
		advance(a, b, 1000)
		if got := a.post("/ratelimit/reserve", reserve).reply(); !got.Replayed || a.holds() != "8500 99" {
			t.Fatalf("the repeat: replayed %t, left %s", got.Replayed, a.holds())
		}
		advance(a, b, 62_000)
		b.checker.ExpireReservations(t.Context())
		if got := a.holds(); got != "10000 100" {
			t.Errorf("left %s after the end, want all", got)
		}
	})
}

func TestReservation_LivesForADayInAll(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		token := a.post("/ratelimit/reserve", `{"user":"42","fields":{"tokens":1000},"ttl_ms":3600000}`).reply().Reservation
		for range 23 {
			advance(a, b, 3_590_000)
			token = b.post("/ratelimit/renew", fmt.Sprintf(`{"reservation":%q,"ttl_ms":3600000}`, token)).reply().Reservation
		}
		advance(a, b, 3_590_000)
		late := b.do(http.MethodPost, "/ratelimit/renew", fmt.Sprintf(`{"reservation":%q,"ttl_ms":3600000}`, token))
		if got := late.want(http.StatusUnprocessableEntity).fields(); len(got) != 1 || got[0] != "ttl_ms" {
			t.Errorf("fields %v", got)
		}
		b.post("/ratelimit/renew", fmt.Sprintf(`{"reservation":%q,"ttl_ms":60000}`, token)).want(http.StatusOK)
	})
}

func TestReservation_IsSettledByTheIDOfItsReserve(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		a.post("/ratelimit/reserve", fmt.Sprintf(reserveTokens, `,"request_id":"job-1"`)).reply()
		for i := range 2 { // the second repeats it
			got := b.post("/ratelimit/settle", `{"request_id":"job-1","fields":{"tokens":400}}`).reply()
			b.checker.ExpireReservations(t.Context())
			if *got.Refunded != 600 || got.Replayed != (i == 1) {
				t.Errorf("settled for the %d. time: refunded %d, replayed %v", i+1, *got.Refunded, got.Replayed)
			}
		}
		b.do(http.MethodPost, "/ratelimit/settle", `{"request_id":"job-2","weight":1}`).want(http.StatusGone)
		a.post("/ratelimit/reserve", fmt.Sprintf(reserveTokens, `,"request_id":"twice"`)).reply()
		a.post("/ratelimit/reserve", `{"user":"other","fields":{"tokens":1},"request_id":"twice"}`).reply()
		two := b.do(http.MethodPost, "/ratelimit/settle", `{"request_id":"twice","weight":1}`)
		if got := two.want(http.StatusUnprocessableEntity).fields(); len(got) != 1 || got[0] != "request_id" {
			t.Errorf("fields %v", got)
		}
	})
}

func TestReservations_ListAndFiguresOfWhatIsOpen(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		for i := range 7 {
			a.post("/ratelimit/reserve", fmt.Sprintf(`{"user":"u%d","fields":{"tokens":%d},"ttl_ms":60000}`, i, i+1)).reply()
			advance(a, b, 1000)
		}
		a.checker.ExpireReservations(t.Context())
		type page struct {
			Reservations []struct {
				BeganMS int64 `json:"began_ms"`
				Limits  []struct {
					Rule, Key string
					Units     int64
				}
			}
			NextPageToken string `json:"next_page_token"`
		}
		list := func(query string) (n int, units int64) {
			after := ""
			for range 40 {
				var p page
				b.do(http.MethodGet, "/ratelimit/reservations?page_size=3"+query+after, "").want(http.StatusOK).decode(&p)
				for _, r := range p.Reservations {
					n++
					for _, l := range r.Limits {
						units += l.Units
					}
				}
				if after = "&page_token=" + p.NextPageToken; p.NextPageToken == "" {
					return n, units
				}
			}
			t.Fatal("the list has no end")
			return 0, 0
		}
		if n, units := list(""); n != 7 || units != 28+7 {
			t.Errorf("%d open with %d units", n, units)
		}
		if n, _ := list("&older_than=4000"); n != 4 {
			t.Errorf("%d are older than 4 s", n)
		}
		if n, _ := list("&key=user:u3&rule=tokens"); n != 1 {
			t.Errorf("%d of the key", n)
		}
		bad := b.do(http.MethodGet, "/ratelimit/reservations?page_token=x&older_than=-1", "")
		if got := bad.want(http.StatusUnprocessableEntity).fields(); len(got) != 2 {
			t.Errorf("fields %v", got)
		}
		advance(a, b, 70_000)
		b.checker.ExpireReservations(t.Context())
		if n, _ := list(""); n != 0 {
			t.Errorf("%d are open after their end", n)
		}
	})
}

const reserveNothing = `{"user":"42","weight":0,"fields":{"tokens":0},"ttl_ms":60000%s}`

// The node that settles is lost before it has taken the reservation off the list.
func TestReservation_OfNoUnitsIsSettledForGood(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		r := a.post("/ratelimit/reserve", fmt.Sprintf(reserveNothing, `,"on_expire":"refund"`)).reply()
		b.settle(r.Reservation, `"weight":1,"fields":{"tokens":300}`)
		for range 30 {
			advance(a, b, 5000)
			a.checker.ExpireReservations(t.Context())
		}
		if got := a.holds(); got != "9700 99" {
			t.Errorf("left %s", got)
		}
	})
}

func TestReservation_OfNoUnitsIsRenewedAboveTheLimit(t *testing.T) {
	onLists(t, twoLevels(), func(t *testing.T, a, b *fixture) {
		r := a.post("/ratelimit/reserve", fmt.Sprintf(reserveNothing, "")).reply()
		a.post("/ratelimit/charge", `{"user":"42","fields":{"tokens":12000}}`).want(http.StatusOK)
		b.post("/ratelimit/renew", fmt.Sprintf(`{"reservation":%q}`, r.Reservation)).want(http.StatusOK)
	})
}

// busyList is a list of a node that reserves more while each entry is written.
type busyList struct {
	decide.ReservationList
	reserve   func()
	puts, due int
}

func (l *busyList) Write(_ context.Context, changes []*decide.ListChange) {
	for range changes {
		if l.puts++; l.puts < 100 {
			l.reserve()
		}
	}
}

func (l *busyList) Due(context.Context, int) ([]decide.DueEntry, error) {
	l.due = l.puts
	return nil, nil
}

func TestReservations_EndWhileMoreBeginThanTheListTakes(t *testing.T) {
	l := &busyList{}
	f := pooled(t, "memory", nil, twoLevels(), sealing, func(o *decide.CheckerOptions, _ *Deps) {
		o.Open = decide.NewOpenReservations(l, nil)
	})
	l.reserve = func() { f.post("/ratelimit/reserve", `{"user":"42","fields":{"tokens":1}}`).want(http.StatusOK) }
	l.reserve()
	f.checker.ExpireReservations(t.Context())
	if l.due != 1 {
		t.Errorf("%d entries were written before what was due was settled", l.due)
	}
}
