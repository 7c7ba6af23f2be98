package playbook

import (
	"strings"
	"testing"
)

// Every kind of wrong page must fail.
func TestPlay_NoticesWhatIsNotAsPrinted(t *testing.T) {
	w := Serve(t)
	if err := w.PutInForce([]byte("rules:\n  - {name: a, scope: user, algorithm: fixed_window, limit: 2, window_ms: " +
		"60000}\n")); err != nil {
		t.Fatal(err)
	}
	check := "POST /ratelimit/check {\"user\": \"%\"}\n"
	for name, c := range map[string]struct{ play, want string }{
		"true":           {"2x " + check + `-> 200 {"allowed": true, "limits": [{"rule": "a"}]}`, ""},
		"wrong value":    {check + `-> 200 {"remaining": 0}`, "line 1: answer.remaining is 1, the page says 0"},
		"wrong status":   {check + `-> 429`, "line 1: status 200, the page says 429"},
		"missing":        {check + `-> 200 {"ticket": "…"}`, "answer.ticket is missing"},
		"wrong type":     {check + `-> 200 {"allowed": "true"}`, `answer.allowed is true, the page says "true"`},
		"shorter list":   {check + `-> 200 {"limits": []}`, "the page says []"},
		"nested":         {check + `-> 200 {"limits": [{"rule": "b"}]}`, `answer.limits[0].rule is "a", the page says "b"`},
		"one of several": {"3x " + check + `-> 200 {"allowed": true}`, "request 3 of 3: answer.allowed is false"},
		"time stands": {"2x " + check + "-> 200\nafter 59s\n" + check +
			`-> 200 {"allowed": false, "retry_after_ms": 1000}`, ""},
		"time passes": {"2x " + check + "-> 200\nafter 1m\n" + check + `-> 200 {"allowed": false}`,
			"line 4: answer.allowed is true"},
		"remembered": {check + "-> 200 {\"remaining\": \"$r\"}\n" + check + `-> 200 {"remaining": "$r"}`,
			"$r was 1 before"},
		"filled in": {check + "-> 200 {\"rule\": \"$rule\"}\nGET /ratelimit/rules?q=$rule\n" +
			`-> 200 {"rules": [{"name": "$rule"}]}`, ""},
		"unanswered":   {check, "line 1: the request has no answer"},
		"answer alone": {"-> 200", "line 1: answers no request"},
		"nonsense":     {"CHECK it", "line 1: cannot be read"},
		"no JSON":      {check + "-> 200 {", "the printed answer"},
		"headers":      {"PATCH /ratelimit/rules/1\n  If-Match: \"9\"\n  {\"limit\": 2}\n" + `-> 412`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w.SetTime(noon)
			user := strings.ReplaceAll(name, " ", "-")
			err := w.Play(strings.ReplaceAll(c.play, "%", user))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
		w.captured = memory{}
	}
}

// A report that has ended must not come back when the server reads the reports again.
func TestPlay_ReportsEndWithTheTimeOfThePlay(t *testing.T) {
	w := ServeOnRedis(t)
	if err := w.PutInForce([]byte("pools: [{name: a, limit: 1, window_ms: 1000}]\nrules: []\n")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ play, left string }{
		{"PUT /ratelimit/pools/a/load {\"utilization\": 1, \"ttl_ms\": 600000}\n-> 204\nafter 9m", "1"},
		{"after 1m", "0"},
	} {
		if err := w.Play(c.play); err != nil {
			t.Fatal(err)
		}
		if left, err := w.redis.Command(t.Context(), "EXISTS", "sl:load:a"); err != nil || left != c.left {
			t.Errorf("%s: %s reports, %v", c.play, left, err)
		}
	}
}

func TestPage_ReadsBlocksOfEachSection(t *testing.T) {
	got, err := parsePage("# T\n```yaml\na\n```\n## One\n```sh\nx\n```\n## " +
		"Two\n```play\nb\n```\ntext\n```yaml\nc\nd\n```\n")
	if err != nil || len(got) != 2 || got[0].title != "Introduction" || got[1].title != "Two" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if b := got[1].blocks; len(b) != 2 || b[1] != (block{"yaml", "c\nd\n", 15}) {
		t.Errorf("got %+v", b)
	}
	if _, err := parsePage("```yaml\n"); err == nil {
		t.Error("an open block is no error")
	}
}
