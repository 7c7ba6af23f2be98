package fleet

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"sluice/internal/history"
)

// TestCutRules_ReadsWhatJSONReads: what nodes of this version post, and texts that encoding/json has to read.
func TestCutRules_ReadsWhatJSONReads(t *testing.T) {
	many := map[string]posted{"": {1, 2}, Other: {0, 0, 0, 0, 0, 0, 0, 0, 1 << 62}}
	for i := range int64(50) {
		many[strings.Repeat("a", int(i)+1)] = posted{i, -i, i * i}
	}
	for _, text := range []string{
		jsonOf(many), `{}`, `{"a":[1,2,3,4,5]}`, `{"a":[1,2,3,4,5,6,7,8,9,10]}`, `{ "a" : [1,2,3,4,5,6,7,8,9] }`,
		`{"a\"b":[1,2,3,4,5,6,7,8,9]}`, `{"\u003c":[1,2,3,4,5,6,7,8,9],"b":[1,2,3,4,5,6,7,8,9]}`,
		``, `{`, `{"a"`, `{"a":[`, `{"a":[1,2,3,4,5,6,7,8,9]`, `{"a":[1,2,3,4,5,6,7,8,9],}`, `[]`, `null`,
		`{"a":[1,2,3,4,5,6,7,8,x]}`, `{"a":[1,2,3,4,5,6,7,8,9]} more`,
	} {
		var want map[string]posted
		valid := json.Unmarshal([]byte(text), &want) == nil
		if got := rulesPosted(text); valid && !maps.Equal(got, want) {
			t.Errorf("%s is read as %v, want %v", text, got, want)
		}
		minute := `{"a":"10.0.0.1:8080","u":7,"r":` + text + `}`
		var m postedMinute
		valid = json.Unmarshal([]byte(minute), &m) == nil
		got, ok := minutePosted(minute)
		if ok != valid || ok && (got.Address != m.Address || got.Until != 7 || !maps.Equal(got.Rules, m.Rules)) {
			t.Errorf("%s is read as %v, %v, want %v, %v", minute, got, ok, m, valid)
		}
	}
	if _, ok := minutePosted(`{"r":{"a":[1,2,3,4,5,6,7,8,9]},"a":"x","u":7}`); !ok {
		t.Error("members in another order are not read")
	}
}

// TestSummedMinutes_FollowThePosts: a post that comes late, or replaces another, counts; and the sums do not
// grow with the minutes that were read.
func TestSummedMinutes_FollowThePosts(t *testing.T) {
	post := func(n int64) string {
		return jsonOf(postedMinute{Address: "x", Until: 60, Rules: map[string]posted{"": {n}, "charges": {n}}})
	}
	var s summedMinutes
	posts := map[string]string{"a": post(1)}
	first := s.sum(1, posts, time.Time{})
	if again := s.sum(1, maps.Clone(posts), time.Time{}); again != first {
		t.Error("the same posts were added up again")
	}
	posts["b"] = post(2)
	if got := s.sum(1, posts, time.Time{}).rules["charges"]; got != (history.Figures{Allowed: 3}) {
		t.Errorf("with a late post %v, want 3", got)
	}
	posts["a"], posts["b"] = posts["b"], posts["a"]
	posts["a"] = post(5)
	if got := s.sum(1, posts, time.Time{}).rules["charges"]; got != (history.Figures{Allowed: 6}) {
		t.Errorf("after another post %v, want 6", got)
	}
	if got := first.rules["charges"]; got != (history.Figures{Allowed: 1}) {
		t.Errorf("what a caller has became %v", got)
	}
	for m := range int64(100) {
		s.sum(m, posts, time.Time{})
	}
	if len(s.kept) != maxSummed || len(s.read) != maxSummed {
		t.Errorf("%d and %d minutes are remembered, want %d", len(s.kept), len(s.read), maxSummed)
	}
}

// A minute is not read again for a while only if every node has posted all of it, some time has passed, and it was read
// from all nodes.
func TestSummedMinutes_AreSettledOnceEveryNodeHasPosted(t *testing.T) {
	post := func(until int64) map[string]string {
		return map[string]string{"a": jsonOf(postedMinute{Address: "x", Until: until, Rules: map[string]posted{"": {1}}})}
	}
	end := time.Unix(120, 0)
	later := end.Add(settledAfter)
	for name, c := range map[string]struct {
		posts     map[string]string
		read, now time.Time
		want      bool
	}{
		"whole":             {post(120), later, later, true},
		"still fresh":       {post(120), later, later.Add(settledFor - 1), true},
		"read long ago":     {post(120), later, later.Add(settledFor), false},
		"just over":         {post(120), end, later.Add(-1), false},
		"a part":            {post(119), later, later, false},
		"nobody":            {nil, later, later, false},
		"of one node alone": {post(120), time.Time{}, later, false},
		"clock set back":    {post(120), later.Add(1), later, false},
	} {
		var s summedMinutes
		want := s.sum(1, c.posts, c.read)
		if got := s.settled(1, c.now); (got == want) != c.want || got != nil && !c.want {
			t.Errorf("%s: settled is %v", name, got)
		}
	}
}
