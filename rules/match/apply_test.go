package match

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/rules"
	"sluice/rules/override"
)

// rulebook is what a rule database holds, for TestApply.
type rulebook struct {
	rules map[int64]rules.Rule
	pools []rules.Pool
}

func (b *rulebook) compile(version int64) (*Set, error) {
	src := rules.Source{Pools: b.pools, Version: version}
	for _, id := range slices.Sorted(maps.Keys(b.rules)) {
		src.Rules = append(src.Rules, b.rules[id])
	}
	return CompileSource(src, Options{})
}

// changed is the rulebook after a delta.
func (b *rulebook) changed(d *Delta) *rulebook {
	out := &rulebook{maps.Clone(b.rules), b.pools}
	for _, id := range d.Removed {
		delete(out.rules, id)
	}
	for _, r := range d.Changed {
		out.rules[r.ID] = r
	}
	if d.PoolsChanged {
		out.pools = d.Pools
	}
	return out
}

func genPools() *rapid.Generator[[]rules.Pool] {
	return rapid.Custom(func(t *rapid.T) (pools []rules.Pool) {
		for _, name := range []string{"shop", "mail"} {
			if rapid.IntRange(0, 3).Draw(t, "pool") > 0 {
				p := rules.NewPool()
				p.Name, p.WindowMS, p.Limit = name, 1000, rapid.Int64Range(1, 2).Draw(t, "capacity")
				pools = append(pools, p)
			}
		}
		return pools
	})
}

// genStoredRule makes rules that are now and then invalid, share names, and use
// pools and conditions.
func genStoredRule(id int64) *rapid.Generator[rules.Rule] {
	return rapid.Custom(func(t *rapid.T) rules.Rule {
		r := genRule(id).Draw(t, "rule")
		switch rapid.IntRange(0, 30).Draw(t, "oddity") {
		case 0:
			r.Name = rapid.SampledFrom([]string{"rule-1", "twin", "rule-7"}).Draw(t, "name")
		case 1:
			r.Limit = -1
		case 2, 3, 4, 5:
			if r.Algorithm != "concurrency" {
				r.Pool = ptr(rapid.SampledFrom([]string{"shop", "mail"}).Draw(t, "pool"))
			}
		case 6, 7, 8:
			r.When = ptr(rapid.SampledFrom([]string{`user == "42"`, `tier == "free" or weight > 2`, `route matches "^/a"`,
				`user matches "(a?){999}b"`}).Draw(t, "when"))
		}
		r.Normalize()
		return r
	})
}

func genDelta(b *rulebook, version int64) *rapid.Generator[Delta] {
	return rapid.Custom(func(t *rapid.T) Delta {
		d := Delta{Version: version, Pools: b.pools}
		id := rapid.Int64Range(1, int64(len(b.rules))+9)
		for range rapid.IntRange(0, 4).Draw(t, "changed") {
			d.Changed = append(d.Changed, genStoredRule(id.Draw(t, "id")).Draw(t, "rule"))
		}
		d.Removed = rapid.SliceOfN(id, 0, 3).Draw(t, "removed")
		if rapid.IntRange(0, 4).Draw(t, "pools") == 0 {
			d.PoolsChanged, d.Pools = true, genPools().Draw(t, "pools")
		}
		return d
	})
}

// everything says all that can be seen of a set.
func everything(t *rapid.T, s *Set, ds []Descriptor) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.Version(), s.Len(), s.Patterns(), len(s.OversizedPatterns()))
	for _, p := range s.Pools() {
		fmt.Fprintf(&b, "%+v\n", *p)
	}
	for i := range s.Len() {
		c := s.At(i)
		if s.Get(c.Rule.ID) != c || c.Pool != nil && s.Pool(c.Pool.Pool.Name) != c.Pool {
			t.Fatalf("rule %d is not the one that is found by its id, or its pool is another", c.Rule.ID)
		}
		text, err := json.Marshal(c.Rule)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %+v %s %t %v %s\n", text, c.Limit, c.Priority, c.Shadow, c.Pool != nil, c.suffix)
	}
	for i := range ds {
		for _, m := range s.Match(&ds[i], 3, noon, nil) {
			fmt.Fprintf(&b, "%s %d %+v %+v\n", m.Key, m.Weight, m.Limit, m.Override)
		}
		for _, c := range s.Explain(&ds[i], 3, noon) {
			fmt.Fprintf(&b, "%d %s %s %s\n", c.Rule.Rule.ID, c.Reason, c.Key, c.Sentence)
		}
	}
	return b.String()
}

func TestApply_GivesWhatCompileSourceGives(t *testing.T) {
	e := override.New().Edit()
	e.Add(override.Row{RuleID: 2, ID: 1, Match: "{user:42}", Limit: 77, Burst: -1})
	overrides := e.Done(1, 0)
	rapid.Check(t, func(t *rapid.T) {
		book := &rulebook{map[int64]rules.Rule{}, genPools().Draw(t, "pools")}
		for id := range rapid.SampledFrom([]int64{0, 4, 40, 300}).Draw(t, "plain rules") {
			r := rule(id+1, func(r *rules.Rule) { r.Route = ptr(fmt.Sprintf("/a/x%d", id)) })
			if id%3 == 0 {
				r.Route = ptr(fmt.Sprintf("/b/x%d/{id}", id))
			}
			book.rules[id+1] = r
		}
		s, err := book.compile(1)
		if err != nil {
			t.Fatal(err)
		}
		s = s.WithOverrides(overrides)
		ds := rapid.SliceOfN(genDescriptor(), 3, 3).Draw(t, "descriptors")
		ds = append(ds, Descriptor{Route: "/a/x1", User: "42"}, Descriptor{Route: "/b/x3/9", User: "42"})
		type held struct {
			set  *Set
			says string
		}
		first := held{s, everything(t, s, ds)}
		for step := range rapid.IntRange(1, 6).Draw(t, "steps") {
			d := genDelta(book, int64(step+2)).Draw(t, "delta")
			next := book.changed(&d)
			want, wantErr := next.compile(d.Version)
			got, err := s.Apply(d)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("got error %v, want %v", err, wantErr)
			}
			if err != nil {
				if got != nil {
					t.Fatal("got a set beside an error")
				}
				continue
			}
			if got, want := everything(t, got, ds), everything(t, want.WithOverrides(overrides), ds); got != want {
				t.Fatalf("got\n%s\nwant\n%s", got, want)
			}
			s, book = got, next
		}
		if now := everything(t, first.set, ds); now != first.says {
			t.Fatalf("the first set changed: it is now\n%s\nand was\n%s", now, first.says)
		}
	})
}

func TestApply_EmptiesAndFillsASet(t *testing.T) {
	const n = 3 * maxChunk
	d := Delta{Version: 2}
	for i := range int64(n) {
		d.Changed = append(d.Changed, rule(i+1, func(r *rules.Rule) { r.Route = ptr(fmt.Sprintf("/v1/r%d", i)) }))
	}
	s, err := compile(t).Apply(d)
	if err != nil {
		t.Fatal(err)
	}
	look := Descriptor{Route: "/v1/r7", User: "42"}
	if ms := s.Match(&look, 1, noon, nil); s.Len() != n || len(ms) != 1 || ms[0].Rule.Rule.ID != 8 {
		t.Fatalf("got %d rules, matches %v", s.Len(), ms)
	}
	for id := range int64(n) {
		if s, err = s.Apply(Delta{Removed: []int64{id + 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Len() != 0 || len(s.Match(&look, 1, noon, nil)) != 0 || s.index.exact != nil || s.index.everywhere != nil ||
		s.index.trie != nil {
		t.Errorf("%d rules are left, or traces in the index", s.Len())
	}
}

func TestApply_SharesWhatDidNotChange(t *testing.T) {
	s := benchSet(t, 2000, 2000)
	next, err := s.Apply(Delta{Changed: []rules.Rule{rule(1000, nil)}, Version: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Len() {
		if same := next.At(i) == s.At(i); same != (s.At(i).Rule.ID != 1000) {
			t.Errorf("rule %d: shared is %t", s.At(i).Rule.ID, same)
		}
	}
}

// BenchmarkApply changes one rule of many, and reports the memory that the set
// holds after as many changes.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			s := benchSet(b, n, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				id := int64(i*7919%n + 1)
				r := s.Get(id).Rule
				r.Limit++
				next, err := s.Apply(Delta{Changed: []rules.Rule{r}, Version: int64(i)})
				if err != nil {
					b.Fatal(err)
				}
				s = next
				i++
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(s.Len()), "B/rule")
		})
	}
}
