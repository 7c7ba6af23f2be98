package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/metadata"
	"pgregory.net/rapid"

	"sluice/rules/profile"
)

// answersToClients is how many answers of each run of rapid's 100 are read.
const answersToClients = 100

// What a hidden rule has: its name, its limits, and what remains after one and after 7,000,000 units.
var hiddenTexts = []string{"zz-secret", "76543210", "7654321", "69543210", "654321", ";w=7919", "7919s", "2h11m"}

func TestHidden_IsInNoAnswerToClients(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	dialects := []string{"none", "openai", "anthropic", "mcp"}
	for _, dialect := range dialects {
		withProfile(t, cfg, func(p *profile.Profile) {
			p.Name, p.Dialect, p.Weight = dialect, dialect, &profile.WeightSource{Header: "X-Weight"}
			if dialect == "openai" {
				p.Domain, p.Entries = "api", map[string]string{"user": "user"}
			}
		})
	}
	n, addr := startGRPC(t, cfg)
	for _, rule := range []string{
		`"name":"zz-secret-wide","scope":"global","limit":76543210,"window_ms":7919000,"hidden":true`,
		`"name":"zz-secret","scope":"user","limit":7654321,"window_ms":7919000,"hidden":true,"counts":"tokens",
			"denial":{"status":402}`,
		`"name":"zz-secret-never","scope":"user+route","route":"/n","limit":7654321,"window_ms":7919000,"hidden":true,
			"denial":{"status":403,"retry":"never"}`,
		`"name":"shown","scope":"user","route":"/s","limit":90000000,"window_ms":60000,"counts":"tokens"`,
		`"name":"zz-secret.user","limit":7654321,"window_ms":7919000,"hidden":true,"algorithm":"fixed_window",
			"descriptor":{"domain":"own","entries":[{"key":"user"}]}`,
	} {
		if !strings.Contains(rule, "descriptor") {
			rule += `,"algorithm":"fixed_window"`
		}
		n.create("{" + rule + "}")
	}
	d := dialGRPC(t, addr, nil)
	auth := authv3.NewAuthorizationClient(d.conn)
	denied, shown := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for i := range answersToClients {
			user := fmt.Sprint("u", rapid.IntRange(0, 500).Draw(t, "user"))
			path := rapid.SampledFrom([]string{"/", "/s", "/n"}).Draw(t, "path")
			weight := rapid.SampledFrom([]string{"0", "1", "7000000", "80000000", "99000000"}).Draw(t, "weight")
			dialect := rapid.SampledFrom(dialects).Draw(t, "dialect")
			face := []string{"forward", "nginx", "ext_authz", "check", "charge", "reserve", "check/batch", "authz", "api", "own",
				"rls"}[i%11]
			got := ""
			ctx := metadata.AppendToOutgoingContext(n.t.Context(), "sluice-token", n.token)
			switch face {
			case "forward", "nginx", "ext_authz":
				req := n.question(face, path, user, "X-Weight", weight)
				req.URL.Path = strings.Replace(req.URL.Path, "/shop", "/"+dialect, 1)
				res, err := n.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				got = fmt.Sprint(res.StatusCode, res.Header, string(body))
				if err != nil || res.StatusCode == http.StatusBadRequest {
					t.Fatal(got, err)
				}
			case "authz":
				check := &authv3.AttributeContext{ContextExtensions: map[string]string{"sluice-profile": dialect},
					Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Method: "GET", Path: path,
						Headers: map[string]string{"x-user": user, "x-weight": weight}}}}
				a, err := auth.Check(ctx, &authv3.CheckRequest{Attributes: check})
				if err != nil {
					t.Fatal(err)
				}
				a.DynamicMetadata = nil // Envoy keeps it
				got = a.String()
			case "api", "own":
				a, err := d.ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{Domain: face,
					Descriptors: []*commonv3.RateLimitDescriptor{{Entries: []*commonv3.RateLimitDescriptor_Entry{
						{Key: "user", Value: user}}}}, HitsAddend: 7_000_000})
				if err != nil {
					t.Fatal(err)
				}
				a.DynamicMetadata = nil
				got = a.String() + string(a.GetRawBody())
			case "rls":
				_, doc := n.send("POST", "/ratelimit/rls",
					`{"domain":"own","descriptors":[{"entries":[{"key":"user","value":"`+user+`"}]}]}`)
				delete(doc, "dynamicMetadata")
				got = jsonOf(doc)
			default:
				body := `{"user":"` + user + `","route":"` + path + `","weight":` + weight
				if dialect != "none" {
					body += `,"dialect":"` + dialect + `"`
				}
				if body += "}"; face == "check/batch" {
					body = `{"checks":[` + body + `]}`
				}
				_, doc := n.send("POST", "/ratelimit/"+face, body)
				if results, _ := doc["results"].([]any); len(results) > 0 {
					doc, _ = results[0].(map[string]any)
				}
				if doc["headers"] == nil {
					t.Fatal(doc)
				}
				got = jsonOf(doc["headers"]) + jsonOf(doc["body"])
			}
			for _, text := range hiddenTexts {
				if strings.Contains(got, text) {
					t.Fatalf("%s in dialect %s has %s: %s", face, dialect, text, got)
				}
			}
			if strings.Contains(got, "violated-policies") {
				denied++
			}
			if strings.Contains(got, "shown") {
				shown++
			}
		}
	})
	if denied < answersToClients || shown < answersToClients {
		t.Errorf("of the answers %d are denials, and %d have the other rule", denied, shown)
	}
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v) // it was JSON
	return string(b)
}
