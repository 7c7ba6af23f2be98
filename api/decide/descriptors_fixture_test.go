package decide

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/rules"
	"sluice/rules/entries"
)

// patience is how long a test waits for its Redis on a busy machine.
const patience = 20 * time.Second

var prefixes atomic.Int64

// redisAt makes a store on a Redis or a cluster. Stores with the same prefix share their buckets.
func redisAt(t testing.TB, url, prefix string, clock func() int64) limiter.Store {
	t.Helper()
	client, err := redisstore.NewClient(url, redisstore.ClientOptions{DialTimeout: patience, Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	s, err := redisstore.New(redisstore.Options{Client: client, Prefix: prefix, Clock: clock, MaxWait: patience,
		ProbeLimit: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// ownPrefix returns a prefix of keys that no other test has.
func ownPrefix() string { return fmt.Sprintf("decide%d:", prefixes.Add(1)) }

// onStores runs a test in memory and on Redis.
func onStores(t *testing.T, rs []rules.Rule, test func(t *testing.T, f *fixture)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, patient(t, rs, nil)) })
	t.Run("redis", func(t *testing.T) {
		test(t, patient(t, rs, func(clock func() int64) limiter.Store {
			return redisAt(t, testenv.SharedRedis(t).URL(), ownPrefix(), clock)
		}))
	})
}

// patient returns a fixture that waits for its store, nil for one in memory.
func patient(t *testing.T, rs []rules.Rule, store func(clock func() int64) limiter.Store) *fixture {
	t.Helper()
	f := newFixture(t, append([]rules.Rule(nil), rs...), func(o *CheckerOptions) { o.Timeout = patience })
	if store != nil {
		f.store.Store = store(f.now.Load)
	}
	return f
}

// shop returns a rule of the domain shop for a descriptor such as "path=/pay user", with a fixed
// window of a minute.
func shop(name, descriptor string, limit int64, edit ...func(*rules.Rule)) rules.Rule {
	r := rules.Rule{
		Name: name, Limit: limit, WindowMS: 60_000, Algorithm: "fixed_window", IsActive: true, Throttle: "hard",
		Mode: "enforce", FailMode: "open", Addend: rules.AddendTake,
		Descriptor: &rules.RuleDescriptor{Domain: "shop"},
	}
	for _, part := range strings.Fields(descriptor) {
		key, value, _ := strings.Cut(part, "=")
		r.Descriptor.Entries = append(r.Descriptor.Entries, entries.Element{Key: key, Value: value})
	}
	for _, e := range edit {
		e(&r)
	}
	return r
}

func charged(r *rules.Rule)   { r.Addend = rules.AddendCharge }
func quota(r *rules.Rule)     { r.Quota = true }
func shadowed(r *rules.Rule)  { r.Mode = "shadow" }
func unlimited(r *rules.Rule) { r.Unlimited = true }

func failsTo(mode string) func(*rules.Rule) { return func(r *rules.Rule) { r.FailMode = mode } }

func replaces(names ...string) func(*rules.Rule) { return func(r *rules.Rule) { r.Replaces = names } }

// leased makes a rule one of concurrency whose leases last so many ms.
func leased(windowMS int64) func(*rules.Rule) {
	return func(r *rules.Rule) { r.Algorithm, r.WindowMS = "concurrency", windowMS }
}

// asked returns a descriptor such as "path=/pay user=a" with an addend. What is sent beside it is in
// the marks: e for an explicit addend, n for a negative one.
func asked(descriptor string, addend int64, marks string) AskedDescriptor {
	d := AskedDescriptor{Addend: addend, Explicit: strings.Contains(marks, "e"), Negative: strings.Contains(marks, "n")}
	for _, part := range strings.Fields(descriptor) {
		key, value, _ := strings.Cut(part, "=")
		d.Entries = append(d.Entries, entries.Entry{Key: key, Value: value})
	}
	return d
}

// withLimit adds a limit per minute to a descriptor.
func withLimit(d AskedDescriptor, count int64) AskedDescriptor {
	d.Limit = &SentLimit{Count: count, Window: 60_000}
	return d
}

// call makes a call of descriptors of the domain shop.
func (f *fixture) call(ds ...AskedDescriptor) *DescriptorAnswer {
	f.t.Helper()
	return f.callAs(&DescriptorQuestion{Domain: "shop", Descriptors: ds})
}

func (f *fixture) callAs(q *DescriptorQuestion) *DescriptorAnswer {
	f.t.Helper()
	var a DescriptorAnswer
	if err := f.DoDescriptors(f.t.Context(), q, &a); err != nil {
		f.t.Fatal(err)
	}
	for i := range a.Statuses {
		if st := &a.Statuses[i]; st.Limit >= len(a.Limits) || (st.Limit >= 0) != (st.State == StateLimited) {
			f.t.Fatalf("status %d of %d limits: %+v", i, len(a.Limits), *st)
		}
	}
	return &a
}

// text returns an answer as its verdict and its statuses, such as "denied: over 0, ok 3".
func (a *DescriptorAnswer) text() string {
	out := make([]string, len(a.Statuses))
	for i := range a.Statuses {
		switch st := &a.Statuses[i]; st.State {
		case StateNoRule:
			out[i] = "none"
		case StateUnlimited:
			out[i] = "unlimited"
		case StateReplaced:
			out[i] = "replaced"
		case StateLimited:
			word := "ok"
			switch {
			case st.Over:
				word = "over"
			case st.Full:
				word = "full"
			}
			out[i] = fmt.Sprint(word, " ", st.Remaining)
		}
	}
	return a.Verdict.String() + ": " + strings.Join(out, ", ")
}

// expect makes a call and compares its answer.
func (f *fixture) expect(t *testing.T, want string, ds ...AskedDescriptor) *DescriptorAnswer {
	t.Helper()
	f.t = t
	a := f.call(ds...)
	if got := a.text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	return a
}

// levels returns what remains of single descriptors.
func (f *fixture) levels(t *testing.T, want string, descriptors ...string) {
	t.Helper()
	f.t = t
	var got []string
	for _, d := range descriptors {
		a := f.callAs(&DescriptorQuestion{Domain: "shop", Look: true, Descriptors: []AskedDescriptor{asked(d, 0, "")}})
		got = append(got, fmt.Sprint(a.Statuses[0].Remaining))
	}
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		t.Errorf("remaining (-want +got):\n%s", diff)
	}
}
