package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/internal/tick"
)

// A statement follows what was spent, and what a flushed Redis lost is charged again.
func TestUsage_ShowsAndRestores(t *testing.T) {
	redis := testenv.Redis(t)
	r := launch(t, nil, append(serveArgs(dataDir(t)), "--redis-url="+redis.URL())...)
	const rule = `rules:
  - name: budget
    scope: user
    algorithm: fixed_window
    limit: 100
    window_ms: 86400000
    keep_periods: 3
`
	if code, _, errs := sluice(t, rule, "rules", "apply", "--server="+r.url, "-f", "-"); code != exitDone {
		t.Fatal(errs)
	}
	run := func(code int, want string, args ...string) {
		t.Helper()
		got, out, errs := sluice(t, "", append(args, "--server="+r.url)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q exits %d, want %d with %q\n%s%s", args, got, code, want, out, errs)
		}
	}
	written := func(want string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		for {
			_, out, errs := sluice(t, "", "usage", "--rule=budget", "--format=csv", "--server="+r.url)
			if strings.Contains(out, want) {
				return
			}
			if !tick.Wait(ctx, 100*time.Millisecond) {
				t.Fatalf("no %s in\n%s%s", want, out, errs)
			}
		}
	}
	run(exitDone, "allowed", "check", "--user=ada", "--weight=60")
	written(",user:ada,60,")
	run(exitDone, "KEYS  SPENT", "usage", "--rule=1", "--by=period")
	run(exitDone, `"key":"user:ada","spent":60`, "usage", "--rule=budget", "--format=json", "--key=user:ada")
	run(exitError, "keep_periods", "usage", "--rule=absent")
	run(exitDone, "0 keys compared", "usage", "restore")
	if _, err := redis.Command(t.Context(), "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
	run(exitDone, "allowed", "check", "--user=ada", "--weight=5")
	run(exitDone, "user:ada  55 of 60\n1 keys compared, 1 lacked 55 units; dry run", "usage", "restore", "--dry-run")
	run(exitDone, "1 lacked 55 units; charged", "usage", "restore")
	run(exitDone, "0 keys compared", "usage", "restore")
	run(exitNo, "denied", "check", "--user=ada", "--weight=41")
	run(exitDone, "allowed", "check", "--user=ada", "--weight=40")
	written(",user:ada,100,")
	r.terminate()
}
