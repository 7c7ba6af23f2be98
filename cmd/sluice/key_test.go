package main

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestKey_ReadsPackedNamesBothWays(t *testing.T) {
	for _, key := range []limiter.Key{"{user:42}|17|fw", "{ip:203.0.113.7}|512|lv", "{key:user-42}|w60000|sc",
		"{key:a:b}|w1500|lv", "{global}|3|sb", "{user:42}+ip:10.0.0.1|3|fw"} {
		name := redisstore.NameOf("sl:", key)
		quoted := quoteName(name)
		for _, given := range []string{name, quoted, strings.Trim(quoted, `"`), "sl:" + string(key), string(key)} {
			args, in := []string{"key", "--json", given}, ""
			if given == name { // raw bytes come in by standard input only
				args, in = args[:2], given+"\n"
			}
			code, out, errs := sluice(t, in, args...)
			var got bucketName
			if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitDone {
				t.Errorf("%q exits %d: %s%s", given, code, out, errs)
				continue
			}
			if got.Readable != "sl:"+string(key) || got.Name != quoted {
				t.Errorf("%q is read as %+v, want %s", given, got, key)
			}
		}
	}
}

func TestKey_SaysWhoseBucketItIs(t *testing.T) {
	code, out, errs := sluice(t, "", "key", quoteName(redisstore.NameOf("sl:", "{user:42}|17|lv")))
	if code != exitDone || !strings.Contains(out, "rule 17") || !strings.Contains(out, "user:42") ||
		!strings.Contains(out, "token_bucket or leaky_bucket or leaky_queue") {
		t.Errorf("exits %d: %s%s", code, out, errs)
	}
	code, out, _ = sluice(t, "\n{user:42%s3}|17|fw\n", "key", "--json")
	if code != exitDone || !strings.Contains(out, `"shard":3`) || !strings.Contains(out, `"key":"user:42"`) ||
		!strings.Contains(out, `%s3`) {
		t.Errorf("a shard: %d %s", code, out)
	}
	const job = "{key:job-42}|w86400000|fw"
	for _, name := range []string{job, quoteName(redisstore.NameOf("sl:", job))} {
		code, out, _ = sluice(t, "", "key", name)
		if code != exitDone || !strings.Contains(out, "direct check (86400000 ms)  job-42  fixed_window") {
			t.Errorf("a direct check: %d %s", code, out)
		}
	}
	code, out, _ = sluice(t, "", "key", "--json", "{user:42}|17.c|fw")
	if code != exitDone || !strings.Contains(out, `"candidate":true`) || !strings.Contains(out, `"rule_id":17`) {
		t.Errorf("a candidate exits %d: %s", code, out)
	}
}

func TestKey_GivesTheNameOfARulesKey(t *testing.T) {
	code, out, errs := sluice(t, "", "key", "--rule=17", "--algorithm=fixed_window", "user:42", "user:42+ip:10.0.0.1")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitDone || len(lines) != 2 {
		t.Fatalf("exits %d: %s%s", code, out, errs)
	}
	for i, key := range []limiter.Key{"{user:42}|17|fw", "{user:42}+ip:10.0.0.1|17|fw"} {
		if want := quoteName(redisstore.NameOf("sl:", key)) + "  sl:" + string(key); !strings.HasPrefix(lines[i], want) {
			t.Errorf("got %q, want it to begin with %q", lines[i], want)
		}
	}
}

func TestKey_WritesNoControlCharacterToTheTerminal(t *testing.T) {
	const user, shown = "a\x1b]0;x\x07\u202eb", "a%1B]0;x%07%E2%80%AEb"
	const want = "  sl:{user:" + shown + "}|17|fw  rule 17  user:" + shown + "  fixed_window\n"
	for _, args := range [][]string{{"{user:" + user + "}|17|fw"},
		{"--rule=17", "--algorithm=fixed_window", "user:" + user},
		{quoteName(redisstore.NameOf("sl:", "{user:"+user+"}|17|fw"))}} {
		code, out, errs := sluice(t, "", append([]string{"key"}, args...)...)
		if code != exitDone || !strings.HasSuffix(out, want) {
			t.Errorf("%q exits %d: %q%q", args, code, out, errs)
		}
	}
}

func TestKey_ReadsAListingAndNamesWhatIsNoBucket(t *testing.T) {
	list := quoteName(redisstore.NameOf("sl:", "{user:42}|17|fw")) + "\nsl:nodes\nsl:{user:42}:r:id\nsl:\\x82\n"
	code, out, errs := sluice(t, list, "key")
	if code != exitDone || strings.Count(out, "\n") != 1 || strings.Count(errs, "is not the name of a bucket") != 3 {
		t.Errorf("exits %d: %s%s", code, out, errs)
	}
	for _, args := range [][]string{{"key", "sl:nodes"}, {"key", "--rule=3", "user:42"},
		{"key", "--algorithm=gcra", "user:42"}, {"key", "--rule=3", "--algorithm=gcra", "{user:42}"}} {
		if code, out, _ := sluice(t, "", args...); code != exitError || out != "" {
			t.Errorf("%q exits %d: %s", args, code, out)
		}
	}
}
