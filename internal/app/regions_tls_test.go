package app

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
)

func TestRegions_ClientCertificatesStandForTheToken(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	base := settings(t)
	base.DatabaseURL.Value, base.RegionInterval, base.RegionShareInterval = withSchema(t), testInterval, time.Second
	base.RegionTimeout = 2 * time.Second
	base.TLSCertFile, base.TLSKeyFile, base.TLSClientCAFile = s.files.Cert, s.files.Key, s.files.CA
	base.TLSClientScopes = "ops.test=admin;eu.test=regions;us.test=regions;africa.test=regions"
	// asia has a certificate without scopes, and africa does not know the authority of the others.
	names := []string{"eu", "us", "asia", "africa"}
	listens, list := map[string]string{}, []string{}
	for _, name := range names {
		listens[name] = testenv.FreeAddr(t)
		list = append(list, name+"=https://"+listens[name])
	}
	places := map[string]*certified{}
	for _, name := range names {
		cfg := base
		cfg.DataDir, cfg.Region, cfg.Listen, cfg.RedisURL.Value = t.TempDir(), name, listens[name], testenv.Redis(t).URL()
		cfg.Regions.Regions, cfg.RegionCAFile = strings.Join(list, ","), s.files.CA
		cfg.RegionCertFile, cfg.RegionKeyFile = s.authority.Issue(t, t.TempDir(), name+".test", time.Now().Add(time.Hour))
		if name == "africa" {
			cfg.RegionCAFile = testenv.NewAuthority(t).File
		}
		places[name] = s.certified(t, start(t, cfg), "ops.test")
	}
	if status, body := places["eu"].send(http.MethodPost, "/ratelimit/rules",
		`{"name":"r","scope":"user","limit":10,"window_ms":86400000,"span":"global","cut_off":"alone"}`); status != 201 {
		t.Fatalf("creating a rule: %d %s", status, body)
	}
	remaining := func(at, ask string) any {
		var answer map[string]any
		_, body := places[at].send(http.MethodPost, "/ratelimit/check", ask)
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		return answer["remaining"]
	}
	for _, name := range names {
		eventually(t, "the rule is in force", func() bool { return remaining(name, `{"user":"ada","weight":0}`) == 10.0 })
	}
	remaining("eu", `{"user":"ada","weight":4}`)
	for _, name := range []string{"us", "asia", "africa"} {
		eventually(t, name+" hears of it", func() bool { return remaining(name, `{"user":"ada","weight":0}`) == 6.0 })
	}
	status, body := places["us"].send(http.MethodPost, "/ratelimit/explain", `{"user":"ada"}`)
	if want := `{"region":"eu","units":4}`; status != http.StatusOK || !strings.Contains(body, want) ||
		!strings.Contains(body, `{"region":"us","units":0}`) {
		t.Errorf("explain: %d %s, want what eu and us have spent", status, body)
	}
	for name, want := range map[string]string{"asia": "401", "africa": "unknown authority"} {
		eventually(t, name+" says why nobody takes its messages", func() bool {
			_, body := places[name].send(http.MethodGet, "/ratelimit/regions", "")
			return strings.Contains(body, want)
		})
	}
}
