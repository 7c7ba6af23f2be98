package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/metadata"

	"sluice/internal/config"
	"sluice/internal/records"
	"sluice/rules/profile"
)

// Whatever face a request comes in by, and wherever a credential stands in it, no event has it.
func TestRecords_HaveNoSecretFromAnyFace(t *testing.T) {
	t.Parallel()
	secrets := []string{"sk_live_4eC39HqLyjWDarjtT1zdp7dc", "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"}
	cfg := recording(t, config.DecisionLogFile)
	withProfile(t, cfg, func(p *profile.Profile) {
		p.Facts.APIKey = []profile.Source{{Header: "Authorization"}}
		p.Facts.Tier = []profile.Source{{Header: "X-Tier"}}
	})
	n, addr := startGRPC(t, cfg)
	d := dialGRPC(t, addr, nil)
	n.create(`{"name": "users", "limit": 1, "window_ms": 3600000, "scope": "user"}`)
	n.create(`{"name": "keys", "limit": 1000, "window_ms": 3600000, "scope": "apikey"}`)
	n.create(payRule)
	for _, s := range secrets {
		path := "/pay/" + s + "?token=" + s
		header := []string{"Authorization", "Bearer " + s, "X-Tier", s, "User-Agent", "tool/1 (" + s + ")",
			"Cookie", "session=" + s, "Traceparent", s, "X-Request-Id", s}
		for range 2 { // the second is denied
			for _, face := range []string{"forward", "nginx", "ext_authz"} {
				n.ask(face, path, s, header...)
			}
			by := fmt.Sprintf(`"user":%q,"api_key":%q,"tier":%q,"route":%q,"attributes":{"tenant":%q},"user_agent":%q,
				"trace_id":"t"`, s, s, s, path, s, s)
			n.send(http.MethodPost, "/ratelimit/check", "{"+by+"}")
			n.send(http.MethodPost, "/ratelimit/charge", "{"+by+"}")
			n.send(http.MethodPost, "/ratelimit/refund", "{"+by+"}")
			n.send(http.MethodPost, "/ratelimit/check/batch", `{"checks":[{`+by+`}]}`)
			n.send(http.MethodPost, "/ratelimit/check", fmt.Sprintf(`{"key":"k:%s","limit":1,"window_ms":3600000}`, s))
			n.send(http.MethodPost, "/ratelimit/rls", fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[
				{"key":"path","value":"/pay"},{"key":"user","value":%q}]}]}`, s))
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", s, "user-agent", s)
			if _, err := d.hit(ctx, s); err != nil {
				t.Error(err)
			}
			check := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{ContextExtensions: map[string]string{
				"sluice-profile": "shop"}, Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
				Method: http.MethodGet, Path: path, Host: "shop.example", Headers: map[string]string{"x-user": s,
					"authorization": "Bearer " + s, "user-agent": s, "x-tier": s, "traceparent": s}}},
				Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
					SocketAddress: &corev3.SocketAddress{Address: "203.0.113.7"}}}}}}
			proved := metadata.AppendToOutgoingContext(t.Context(), "sluice-token", n.token)
			if _, err := authv3.NewAuthorizationClient(d.conn).Check(proved, check); err != nil {
				t.Error(err)
			}
		}
	}
	n.stop()
	faces := map[string]int{}
	for _, line := range linesIn(t, filepath.Join(cfg.DataDir, "decisions")) {
		var e records.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		faces[e.Face]++
		for _, s := range secrets {
			if bytes.Contains(line, []byte(s)) {
				t.Errorf("an event of the face %s has a credential: %s", e.Face, line)
			}
		}
	}
	for _, face := range []string{"http", "forward", "nginx", "ext_authz", "envoy_ratelimit", "envoy_rls",
		"envoy_ext_authz"} {
		if faces[face] == 0 {
			t.Errorf("no event of the face %s, but of %v", face, faces)
		}
	}
}
