package override

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// lookUp finds the override of rule 7 for a user as package rules does: the exact
// key, then the longest wildcard.
func lookUp(o *Table, user string, now int64) (Applied, *Effect) {
	r := o.Of(7)
	if r == nil {
		return Applied{}, nil
	}
	if a, f := r.Exact([]byte("{user:"+user+"}"), now); f != nil {
		return a, f
	}
	return r.Longest([]byte("{user:"+user), len("{user:"), now)
}

// The compiled form and a map with the same history agree, through edits,
// deletions, expiry, merges and a copy on disk.
func TestOverrides_AgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := New()
		model := map[string]Row{} // by match and star
		at := int64(1_790_000_000_000)
		users := []string{"", "a", "ab", "abc", "b", "ba"}
		for step := range rapid.IntRange(1, 12).Draw(t, "steps") {
			at += rapid.Int64Range(0, 50).Draw(t, "passed")
			e := o.Edit()
			for range rapid.IntRange(1, 6).Draw(t, "edits") {
				s := Row{
					RuleID: 7, ID: rapid.Int64Range(1, 1000).Draw(t, "id"), Match: "{user:" + rapid.SampledFrom(users).Draw(t, "key"),
					Limit: rapid.Int64Range(0, 3).Draw(t, "limit"), Burst: -1,
					Calendar: rapid.SampledFrom([]Calendar{{}, {}, {Day: 15}, {Zone: "Asia/Tokyo", Month: 4, At: "05:30", From: 7,
						Until: 9}}).Draw(t, "calendar"),
					Prefix: rapid.Bool().Draw(t, "wildcard"), Deleted: rapid.IntRange(0, 3).Draw(t, "delete") == 0,
				}
				if rapid.Bool().Draw(t, "ends") {
					s.ExpiresMS = at + rapid.Int64Range(-20, 100).Draw(t, "end")
				}
				name := s.Match + "*"
				if !s.Prefix {
					s.Match += "}"
					name = s.Match
				}
				e.Add(s)
				if delete(model, name); !s.Deleted {
					model[name] = s
				}
			}
			o = e.Done(int64(step), at)
			switch rapid.IntRange(0, 3).Draw(t, "then") {
			case 0: // everything merged
				for id, rs := range o.byRule {
					o.byRule[id] = &OfRule{seed: rs.seed, base: merge(rs.base, rs.recent, at), prefixes: rs.prefixes}
				}
			case 1:
				var file bytes.Buffer
				if err := o.Write(&file, at); err != nil {
					t.Fatal(err)
				}
				read, err := Read(file.Bytes())
				if err != nil {
					t.Fatal(err)
				}
				o = read
			}
			for _, user := range append(users[1:], "abcd", "c") {
				var want Row
				for n := 0; n <= len(user); n++ {
					if s, ok := model["{user:"+user[:n]+"*"]; ok && (s.ExpiresMS == 0 || s.ExpiresMS > at) {
						want = s
					}
				}
				if s, ok := model["{user:"+user+"}"]; ok && (s.ExpiresMS == 0 || s.ExpiresMS > at) {
					want = s
				}
				a, f := lookUp(o, user, at)
				if a.ID != want.ID || (f != nil) != (want.ID != 0) ||
					f != nil && (f.limit != want.Limit || f.Calendar() != want.Calendar) {
					t.Fatalf("user %s: got %+v, want %+v", user, a, want)
				}
			}
		}
	})
}

func TestOverrides_ADeletedRuleLeavesNothing(t *testing.T) {
	e := New().Edit()
	e.Add(Row{RuleID: 7, ID: 1, Match: "{user:a}", Blocked: true, Limit: -1, Burst: -1})
	e.Add(Row{RuleID: 7, ID: 2, Match: "{user:b", Prefix: true, Blocked: true, Limit: -1, Burst: -1})
	o := e.Done(1, 1)
	e = o.Edit()
	e.Add(Row{RuleID: 7, Deleted: true})
	if after := e.Done(2, 1); after.Len() != 0 || len(after.byRule) != 0 || o.Len() != 2 {
		t.Errorf("got %d left, want 0; before %d", after.Len(), o.Len())
	}
}

func TestReadOverrides_RefusesWhatWasNotWritten(t *testing.T) {
	e := New().Edit()
	for i := range 20 {
		e.Add(Row{RuleID: 7, ID: int64(i + 1), Match: fmt.Sprint("{user:u", i, "}"), Limit: int64(i), Burst: -1})
		e.Add(Row{RuleID: 7, ID: int64(i + 100), Match: fmt.Sprint("{user:w", i), Prefix: true, Blocked: true, Limit: -1,
			Burst: -1})
	}
	var file bytes.Buffer
	if err := e.Done(1, 1).Write(&file, 1); err != nil {
		t.Fatal(err)
	}
	good := file.Bytes()
	for n := range good {
		if _, err := Read(good[:n]); err == nil {
			t.Fatalf("%d of %d bytes are taken for a whole", n, len(good))
		}
	}
	if _, err := Read(append(bytes.Clone(good), 0)); err == nil {
		t.Error("a byte too many is not seen")
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a fixed sequence is wanted
	for range 2000 {
		bad := bytes.Clone(good)
		bad[random.IntN(len(bad))] ^= byte(1 + random.IntN(255))
		if o, err := Read(bad); err == nil { // the file around it has a checksum; here it must only not panic
			lookUp(o, "u1", 1)
		}
	}
}

func TestEdit_LeavesTheBaseWhereItIs(t *testing.T) {
	e := New().Edit()
	for i := range 10_000 {
		e.Add(Row{RuleID: 7, ID: int64(i + 1), Match: fmt.Sprint("{user:", i, "}"), Limit: 1, Burst: -1})
	}
	o := e.Done(1, 1)
	e = o.Edit()
	e.Add(Row{RuleID: 7, ID: 50_000, Match: "{user:17}", Limit: 3, Burst: -1})
	edited := e.Done(2, 1)
	if edited.byRule[7].base != o.byRule[7].base {
		t.Error("one edit copies all overrides of the rule")
	}
	if a, _ := lookUp(edited, "17", 1); a.ID != 50_000 {
		t.Errorf("after the edit: got %+v", a)
	}
}
