package entries

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTree_FindsTheMostSpecificValue(t *testing.T) {
	var tree Tree[string]
	put := func(name string, list ...Element) { tree = tree.Put("shop", list, name, false) }
	put("any path", Element{Key: "path"})
	put("pay", Element{Key: "path", Value: "/pay"})
	put("files", Element{Key: "path", Pattern: "/files/*"})
	put("pictures", Element{Key: "path", Pattern: "/files/*.png"})
	put("everything", Element{Key: "path", Pattern: "*"})
	put("pay of a user", Element{Key: "path", Value: "/pay"}, Element{Key: "user"})
	put("a user's files", Element{Key: "path", Pattern: "/files/*"}, Element{Key: "user"})
	put("literal", Element{Key: "path", Value: "/files/*"})
	put("two hosts", Element{Key: "host"}, Element{Key: "host", Value: "b"})
	tests := []struct {
		domain, list string // key=value, with blanks between
		want         string
		end          End
		at           int
	}{
		{"shop", "path=/pay", "pay", Found, 1},
		{"shop", "path=/files/a", "files", Found, 1},
		{"shop", "path=/files/a.png", "pictures", Found, 1},
		{"shop", "path=/files/*", "literal", Found, 1},
		{"shop", "path=/other", "everything", Found, 1}, // a pattern beats any value
		{"shop", "path=", "everything", Found, 1},
		{"shop", "path=/pay user=b", "pay of a user", Found, 2},
		{"shop", "path=/files/a user=b", "a user's files", Found, 2},
		{"shop", "path=/files/a.png user=b", "", TooDeep, 1}, // it does not go back
		{"shop", "path=/other user=b", "", TooDeep, 1},
		{"shop", "path=/pay user=b more=c", "", TooDeep, 2},
		{"shop", "path=/pay host=b", "", NoFit, 1},
		{"shop", "user=b path=/pay", "", NoFit, 0},
		{"shop", "host=a", "", NoValue, 1},
		{"shop", "host=a host=b", "two hosts", Found, 2},
		{"shop", "host=a host=c", "", NoFit, 1},
		{"shop", "", "", NoValue, 0},
		{"other", "path=/pay", "", NoDomain, 0},
		{"", "path=/pay", "", NoDomain, 0},
	}
	for _, tt := range tests {
		var list []Entry
		for word := range strings.FieldsSeq(tt.list) {
			key, value, _ := strings.Cut(word, "=")
			list = append(list, Entry{key, value})
		}
		if got, end, at := tree.Walk(tt.domain, list); got != tt.want || end != tt.end || at != tt.at {
			t.Errorf("%s, %s: got %q, end %d after %d, want %q, end %d after %d", tt.domain, tt.list, got, end, at, tt.want,
				tt.end, tt.at)
		}
	}
}

// stored is one value of a naive tree.
type stored struct {
	domain string
	list   []Element
	value  int
}

func same(a, b []Element) bool {
	return slices.EqualFunc(a, b, func(a, b Element) bool {
		return a.Key == b.Key && a.Value == b.Value && a.Pattern == b.Pattern
	})
}

// naiveWalk narrows all lists down, entry by entry.
func naiveWalk(all []stored, domain string, list []Entry) (int, End, int) {
	left := slices.DeleteFunc(slices.Clone(all), func(s stored) bool { return s.domain != domain })
	if len(left) == 0 {
		return 0, NoDomain, 0
	}
	for i, e := range list {
		deeper := slices.DeleteFunc(slices.Clone(left), func(s stored) bool { return len(s.list) == i })
		var best *Element
		for _, s := range deeper {
			el := s.list[i]
			if el.Key == e.Key && fits(el, e.Value) && (best == nil || beats(el, *best)) {
				best = &el
			}
		}
		switch {
		case len(deeper) == 0:
			return 0, TooDeep, i
		case best == nil:
			return 0, NoFit, i
		}
		left = slices.DeleteFunc(deeper, func(s stored) bool { return !same(s.list[i:i+1], []Element{*best}) })
	}
	for _, s := range left {
		if len(s.list) == len(list) {
			return s.value, Found, len(list)
		}
	}
	return 0, NoValue, len(list)
}

func fits(el Element, value string) bool {
	switch {
	case el.Value != "":
		return el.Value == value
	case el.Pattern != "":
		return naiveFits(el.Pattern, value)
	}
	return true
}

func naiveFits(pattern, value string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`^(?s:` + strings.Join(parts, ".*") + `)$`).MatchString(value)
}

func beats(a, b Element) bool {
	kind := func(e Element) int {
		switch {
		case e.Value != "":
			return 2
		case e.Pattern != "":
			return 1
		}
		return 0
	}
	literals := func(e Element) int { return utf8.RuneCountInString(strings.ReplaceAll(e.Pattern, "*", "")) }
	return cmp.Or(cmp.Compare(kind(b), kind(a)), cmp.Compare(literals(b), literals(a)),
		strings.Compare(a.Pattern, b.Pattern)) < 0
}

// TestTree_IsTheNaiveWalk compares trees with a naive one, also those made earlier.
func TestTree_IsTheNaiveWalk(t *testing.T) {
	domains := rapid.SampledFrom([]string{"a", "b", ""})
	keys := rapid.SampledFrom([]string{"k", "l"})
	values := rapid.SampledFrom([]string{"a", "ab", "abc", "ü", "*", "a*"})
	patterns := rapid.SampledFrom([]string{"*", "**", "a*", "*b", "*c", "a*c", "*b*", "ü*"})
	element := rapid.Custom(func(t *rapid.T) Element {
		e := Element{Key: keys.Draw(t, "key"), Shared: rapid.Bool().Draw(t, "shared")}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			e.Value = values.Draw(t, "value")
		case 1:
			e.Pattern = patterns.Draw(t, "pattern")
		}
		return e
	})
	lists := rapid.SliceOfN(element, 1, 4)
	entry := rapid.Custom(func(t *rapid.T) Entry {
		return Entry{keys.Draw(t, "key"), rapid.OneOf(values, rapid.Just("")).Draw(t, "value")}
	})
	rapid.Check(t, func(t *rapid.T) {
		var now, before Tree[int]
		var all, was []stored
		forked := rapid.IntRange(0, 40).Draw(t, "forked")
		for i := range rapid.IntRange(0, 80).Draw(t, "edits") {
			if i == forked {
				before, was = now, slices.Clone(all)
			}
			inPlace := i < forked
			domain, list := domains.Draw(t, "domain"), lists.Draw(t, "list")
			if len(all) > 0 && rapid.Bool().Draw(t, "existing") {
				s := rapid.SampledFrom(all).Draw(t, "which")
				domain, list = s.domain, s.list
			}
			is := func(s stored) bool { return s.domain == domain && same(s.list, list) }
			found := slices.IndexFunc(all, is)
			if v, ok := now.Get(domain, list); ok != (found >= 0) || ok && v != all[found].value {
				t.Fatalf("Get of %s %v: got %d, %t, want element %d of %v", domain, list, v, ok, found, all)
			}
			all = slices.DeleteFunc(all, is)
			if rapid.Bool().Draw(t, "put") {
				now = now.Put(domain, list, i+1, inPlace)
				all = append(all, stored{domain, list, i + 1})
			} else {
				now = now.Remove(domain, list)
			}
		}
		if forked == 0 {
			before, was = Tree[int]{}, nil
		}
		for range 20 {
			domain, list := domains.Draw(t, "domain"), rapid.SliceOfN(entry, 0, 5).Draw(t, "entries")
			for _, of := range []struct {
				tree Tree[int]
				all  []stored
			}{{now, all}, {before, was}} {
				v, end, at := of.tree.Walk(domain, list)
				if wantV, wantEnd, wantAt := naiveWalk(of.all, domain, list); v != wantV || end != wantEnd || at != wantAt {
					t.Fatalf("%q %v in %v: got %d, end %d after %d, want %d, end %d after %d", domain, list, of.all, v, end, at,
						wantV, wantEnd, wantAt)
				}
				if got, want := of.tree.HasDomain(domain), slices.ContainsFunc(of.all, func(s stored) bool {
					return s.domain == domain
				}); got != want {
					t.Fatalf("HasDomain of %q: got %t, want %t", domain, got, want)
				}
			}
		}
		for _, s := range all {
			now = now.Remove(s.domain, s.list)
		}
		if now.domains != nil {
			t.Fatalf("an emptied tree is %+v", now)
		}
	})
}

func FuzzFits_IsARegularExpression(f *testing.F) {
	for pattern, value := range maps.All(map[string]string{
		"a*": "abc", "*": "", "a*a": "a", "*ab*ab": "abab", "**b*": "ab", "abc": "abc", "x*y*z": "xyyzz", "ü*": "ü\n",
	}) {
		f.Add(pattern, value)
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(value) || len(pattern) > 200 {
			return
		}
		if got, want := Fits(pattern, value), naiveFits(pattern, value); got != want {
			t.Errorf("%q fits %q: got %t, want %t", value, pattern, got, want)
		}
	})
}

// BenchmarkTree_Walk finds one of many descriptors with three entries: an exact value, a pattern and
// any value.
func BenchmarkTree_Walk(b *testing.B) {
	for _, n := range []int{10, 10_000, 100_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			var tree Tree[int]
			for i := range n {
				list := []Element{
					{Key: "path", Value: fmt.Sprintf("/v1/%d", i/3)}, {Key: "agent", Pattern: fmt.Sprintf("browser/%d*", i%3)},
					{Key: "user"},
				}
				tree = tree.Put("shop", list, i+1, true)
			}
			list := []Entry{{"path", fmt.Sprintf("/v1/%d", n/6)}, {"agent", "browser/1.7"}, {"user", "42"}}
			b.ReportAllocs()
			for b.Loop() {
				if v, _, _ := tree.Walk("shop", list); v == 0 {
					b.Fatal("not found")
				}
			}
		})
	}
}
