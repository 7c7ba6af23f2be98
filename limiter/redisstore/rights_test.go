package redisstore_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// documentedRights is what docs/operations.md tells operators to grant.
func documentedRights(t *testing.T) []any {
	t.Helper()
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ACL SETUSER sluice on >(\S+) (.*)$`).FindStringSubmatch(string(doc))
	if m == nil {
		t.Fatal("docs/operations.md has no line ACL SETUSER sluice on >password …")
	}
	out := []any{"ACL", "SETUSER", "sluice", "on", ">secret"}
	for _, r := range strings.Fields(m[2]) {
		out = append(out, r)
	}
	return out
}

func TestRights_ThoseDocumentedAreEnoughForEverything(t *testing.T) {
	srv := testenv.Redis(t)
	if err := client(t, srv.URL()).Do(context.Background(), documentedRights(t)...).Err(); err != nil {
		t.Fatal(err)
	}
	url := strings.Replace(srv.URL(), "redis://", "redis://sluice:secret@", 1)
	c := client(t, url)
	s := open(t, c, redisstore.Options{})
	for i, l := range limits(month) {
		a := ask(entity(), i, l)
		take(t, s, "id", a)
		do(t, s, limiter.OpPeek, "", a)
		if l.Algorithm == limiter.Concurrency {
			do(t, s, limiter.OpRenew, "id", a)
			do(t, s, limiter.OpRelease, "id", a)
		} else {
			do(t, s, limiter.OpCharge, "", a)
			do(t, s, limiter.OpRefund, "id", a)
			do(t, s, limiter.OpRefund, "", a)
		}
		do(t, s, limiter.OpReset, "", a)
	}
	speaker, _ := bus(t, url, "sl:")
	_, listener := bus(t, url, "sl:")
	meet(t, listener, speaker)
	p := announce(t, url, "sl:")
	eventually(t, "the node has announced itself", p.Connected)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.FlushAll(context.Background()).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("the user may do more than it needs: %v", err)
	}
	if err := c.Get(context.Background(), "foreign").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("the user may read foreign keys: %v", err)
	}
	other := open(t, c, redisstore.Options{Prefix: "other:"})
	wantCause(t, try(other, time.Second, ask(entity(), 1, limits(month)[0])), limiter.CauseAuth, false)
}
