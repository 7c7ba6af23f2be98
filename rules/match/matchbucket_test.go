package match

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"sluice/rules"
)

func TestMatchBucket_FindsTheRuleInAnyOrderOfKeys(t *testing.T) {
	s := compile(t,
		entryRule(1, "shop:path=/pay user", nil),
		entryRule(2, "shop:user=root path=/pay", nil),
		entryRule(3, "shop:path", nil),
		entryRule(4, "shop:user tier=gold", nil),
		entryRule(5, "shop:twice twice", nil),
		entryRule(6, "other:user", nil),
	)
	for _, tt := range []struct {
		domain string
		bucket map[string]string
		want   string
	}{
		{"shop", map[string]string{"user": "b", "path": "/pay"}, "{shop:path=/pay+user=b}|1|fw"},
		// Rules 1 and 2 fit; path comes before user.
		{"shop", map[string]string{"user": "root", "path": "/pay"}, "{shop:path=/pay+user=root}|1|fw"},
		{"shop", map[string]string{"path": "/x"}, "{shop:path=/x}|3|fw"},
		{"shop", map[string]string{"tier": "gold", "user": "b"}, "{shop:user=b+tier=gold}|4|fw"},
		{"shop", map[string]string{"tier": "free", "user": "b"}, ""},
		{"shop", map[string]string{"twice": "a"}, ""},
		{"shop", map[string]string{"user": "b"}, ""},
		{"shop", nil, ""},
		{"none", map[string]string{"path": "/x"}, ""},
		{"shop\x00path", map[string]string{"user": "b"}, ""},
		{"shop", map[string]string{"path\x00user": "b"}, ""},
	} {
		m, list, ok := s.MatchBucket(tt.domain, tt.bucket, noon)
		if string(m.Key) != tt.want || ok != (tt.want != "") || ok && len(list) != len(tt.bucket) {
			t.Errorf("%s %v: got %q %v %v, want %q", tt.domain, tt.bucket, m.Key, list, ok, tt.want)
		}
	}
}

// Edits leave the index that compiling all rules anew gives.
func TestMatchBucket_FollowsEdits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := map[int64]rules.Rule{}
		s, err := Compile(nil, 1, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for version := int64(2); version < 12; version++ {
			id := rapid.Int64Range(1, 4).Draw(t, "id")
			d := Delta{Version: version, Removed: []int64{id}}
			if rapid.Bool().Draw(t, "put") {
				r := entryRule(id, rapid.SampledFrom([]string{"a:x y", "a:y x", "a:x=1 y", "a:x"}).Draw(t, "rule"), nil)
				d.Removed, d.Changed, all[id] = nil, []rules.Rule{r}, r
			} else {
				delete(all, id)
			}
			if s, err = s.Apply(d); err != nil {
				t.Fatal(err)
			}
			var list []rules.Rule
			for _, r := range all {
				list = append(list, r)
			}
			whole, err := Compile(list, version, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, bucket := range []map[string]string{{"x": "1", "y": "2"}, {"x": "3", "y": "2"}, {"x": "1"}} {
				got, _, _ := s.MatchBucket("a", bucket, noon)
				want, _, _ := whole.MatchBucket("a", bucket, noon)
				if got.Key != want.Key {
					t.Fatal(fmt.Sprint(bucket, ": after edits ", got.Key, ", compiled anew ", want.Key))
				}
			}
		}
	})
}
