package app

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/internal/testenv"
	"sluice/rules/profile"
)

// refusing is a refusedWatch whose clock the test sets.
type refusing struct {
	*refusedWatch
	at     time.Time
	lines  buffer
	counts *prometheus.Registry
}

func newRefusing() *refusing {
	r := &refusing{at: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), counts: prometheus.NewRegistry()}
	host := &Host{Log: slog.New(slog.NewTextHandler(&r.lines, nil)), Now: func() time.Time { return r.at }}
	r.refusedWatch = newRefusedWatch(host, r.counts, []string{"check"})
	return r
}

func (r *refusing) call(reason access.Reason, id int64) {
	token := access.Token{ID: id, Name: fmt.Sprint("t", id)}
	if id == 0 {
		token = access.Token{}
	}
	r.refused("check", &access.Refusal{Reason: reason, Token: token})
}

// subjects are those of the alerts, by what tells them apart.
func (r *refusing) subjects() (out []string) {
	for _, c := range r.conditions() {
		if c.Subject.Kind == alerts.KindTokenRefused {
			out = append(out, c.Subject.Level+" "+c.Cause)
		}
	}
	return out
}

func TestRefused_OneLineAMinuteForEachToken(t *testing.T) {
	r := newRefusing()
	for range 30 { // seconds
		r.at = r.at.Add(time.Second)
		r.call(access.RevokedToken, 7)
		r.call(access.LacksScope, 8)
		r.call(access.UnknownToken, 0)
		r.call(access.UnknownToken, 0)
	}
	lines := func() []string { return strings.Split(strings.TrimSpace(r.lines.String()), "\n") }
	const first = "endpoint=check reason=revoked calls=1 token=7 name=t7"
	if got := lines(); len(got) != 3 || !strings.Contains(got[0], first) ||
		!strings.Contains(got[2], "reason=unknown calls=1 more=") || strings.Contains(got[2], "token=") {
		t.Errorf("the log has\n%s", r.lines.String())
	}
	r.at = r.at.Add(time.Minute)
	r.call(access.RevokedToken, 7)
	r.call(access.UnknownToken, 0)
	if got := lines(); len(got) != 5 || !strings.Contains(got[3], "calls=30") || !strings.Contains(got[4], "calls=60") {
		t.Errorf("a minute later the log has\n%s", r.lines.String())
	}
	testenv.Served(t, r.counts, `sluice_refused_total{endpoint="check",reason="revoked"} 31`,
		`sluice_refused_total{endpoint="check",reason="unknown"} 61`,
		`sluice_refused_total{endpoint="check",reason="scope"} 30`, `sluice_refused_total{endpoint="check",reason="none"} 0`)
}

func TestRefused_AnExpiredOrRevokedTokenIsAnAlertUntilItIsNotUsedForAnHour(t *testing.T) {
	r := newRefusing()
	r.call(access.RevokedToken, 7)
	r.call(access.ExpiredToken, 9)
	r.call(access.LacksScope, 8)
	r.call(access.UnknownToken, 0)
	if got := r.subjects(); !slices.Equal(got, []string{"7 (t7) revoked", "9 (t9) expired"}) {
		t.Errorf("alerts about %q", got)
	}
	r.at = r.at.Add(refusedHold - time.Second)
	r.call(access.RevokedToken, 7)
	r.at = r.at.Add(time.Second)
	if got := r.subjects(); !slices.Equal(got, []string{"7 (t7) revoked"}) {
		t.Errorf("an hour after the last call of 9: alerts about %q", got)
	}
	r.at = r.at.Add(refusedHold)
	if got := r.subjects(); got != nil || r.tokens != 0 {
		t.Errorf("at the end: alerts about %q, %d tokens", got, r.tokens)
	}
}

func TestRefused_WatchesABoundedNumberOfTokens(t *testing.T) {
	r := newRefusing()
	for id := range int64(3 * maxRefusedTokens) {
		r.call(access.RevokedToken, id+1)
	}
	if n, lines := len(r.seen), strings.Count(r.lines.String(), "\n"); n != maxRefusedTokens+1 ||
		lines != maxRefusedTokens+1 || len(r.subjects()) != maxRefusedTokens {
		t.Errorf("%d callers, %d lines, %d alerts", n, lines, len(r.subjects()))
	}
	r.at = r.at.Add(refusedHold)
	r.call(access.RevokedToken, 3*maxRefusedTokens)
	want := []string{fmt.Sprintf("%d (t%[1]d) revoked", 3*maxRefusedTokens)}
	if got := r.subjects(); !slices.Equal(got, want) {
		t.Errorf("once there is room: alerts about %q", got)
	}
}

// TestRefused_EveryInterfaceLeavesATrace of a token that is revoked: a series, a log line without the secret and a
// message to the webhook.
func TestRefused_EveryInterfaceLeavesATrace(t *testing.T) {
	withLoopAndWithout(t, everyInterfaceLeavesATrace)
}

func everyInterfaceLeavesATrace(t *testing.T, loop string) {
	cfg := settings(t)
	cfg.Loop, cfg.WebhookAllow = loop, []string{"127.0.0.1"}
	withProfile(t, cfg, func(p *profile.Profile) { p.Proof.Networks, p.Proof.Token = nil, true })
	secrets := map[string]string{}
	for _, name := range []string{"owner", "leaver"} {
		_, secret, err := CreateToken(t.Context(), cfg.Storage, NewToken{Name: name, By: "test",
			Scopes: []access.Scope{access.ScopeAdmin}}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		secrets[name] = secret
	}
	if _, err := RevokeToken(t.Context(), cfg.Storage, "leaver", "test"); err != nil {
		t.Fatal(err)
	}
	n, addr := startGRPC(t, cfg)
	n.token = secrets["owner"]
	hooks := receive(t)
	hooks.hook(n, `"token_refused"`)

	n.token = secrets["leaver"]
	for _, path := range []string{"/ratelimit/check", "/ratelimit/check/batch", "/ratelimit/rls"} {
		if status, _ := n.send("POST", path, `{"user":"42"}`); status != http.StatusUnauthorized {
			t.Errorf("%s: %d", path, status)
		}
	}
	n.send("GET", "/metrics", "")
	n.send("GET", "/ratelimit/rules/1/history", "")
	check, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.url+"/ratelimit/check",
		io.NopCloser(bytes.NewBufferString(`{"user":"42"}`))) // chunked, so that net/http reads it
	if err != nil {
		t.Fatal(err)
	}
	check.Header.Set("Content-Type", "application/json")
	check.Header.Set("Authorization", "Bearer "+n.token)
	n.put(check)
	n.ask("forward", "/a", "42", "Sluice-Token", n.token)
	n.ask("ext_authz", "/a", "42", "Sluice-Token", n.token)
	d := dialGRPC(t, addr, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+n.token)
	if _, err := d.hit(ctx, "42"); err == nil {
		t.Error("gRPC admits it")
	}
	if _, err := authv3.NewAuthorizationClient(d.conn).Check(ctx, &authv3.CheckRequest{}); err == nil {
		t.Error("ext_authz admits it")
	}

	n.token = secrets["owner"]
	for endpoint, want := range map[string]float64{"check": 2, "check/batch": 1, "rls": 1, "metrics": 1, "rules": 1,
		"forward": 1, "ext_authz": 1, "envoy_ratelimit": 1, "envoy_ext_authz": 1, "nginx": 0, "regions/exchange": 0} {
		series := fmt.Sprintf(`sluice_refused_total{endpoint=%q,reason="revoked"}`, endpoint)
		if got := n.metric(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	log := n.log.String()
	if strings.Count(log, "calls were refused") != 1 || !strings.Contains(log, "reason=revoked") ||
		!strings.Contains(log, "token=2 name=leaver") || strings.Contains(log, secrets["leaver"]) {
		t.Errorf("the log is\n%s", log)
	}
	eventually(t, "the message arrives", func() bool { return len(hooks.alerts(t)) > 0 })
	text := regexp.MustCompile(`^The API token 2 \(leaver\) is revoked and has been used since \d\d:\d\d:\d\d UTC: its ` +
		`calls are refused\. Give its client a new token, or stop the client\.$`)
	a := hooks.alerts(t)[0]
	if a.Type != "token_refused" || a.Data.Numbers["token"] != 2 || !text.MatchString(a.Data.Text) {
		t.Errorf("the message is %+v", a)
	}
}
