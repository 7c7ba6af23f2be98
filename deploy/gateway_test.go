package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// leftOver matches what an example says about places of its own.
var leftOver = regexp.MustCompile(`127\.0\.0\.1(:| ?, port_value: |\s+port: )(8000|8080|9000)|(?i)x[-_]api[-_]key|` +
	`/ratelimit/[a-z_]+/shop|lua\.sluice shop|"shop"|bind 127\.0\.0\.1\n`)

func TestGateway_FillsInEveryPlace(t *testing.T) {
	p := Places{Sluice: "sluice.example:81", Clients: "10.0.0.1:82", App: "[fd00::1]:83", Profile: "edge.1",
		Header: "X-Who"}
	for i := range Gateways {
		g := &Gateways[i]
		e := g.Fill(p)
		text := e.Install + e.Start + e.Try
		for _, f := range e.Files {
			text += f.Text
		}
		if found := leftOver.FindAllString(text, -1); found != nil {
			t.Errorf("%s still says %q", g.Name, found)
		}
		for _, want := range []string{"edge.1", "81", "82", "83"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not say %s", g.Name, want)
			}
		}
		if !strings.Contains(strings.ToLower(text), "x-who") || e.Start == "" || !strings.Contains(e.Try, "curl ") {
			t.Errorf("%s: start %q, try %q", g.Name, e.Start, e.Try)
		}
		if uses := strings.Contains(text, "SLUICE_TOKEN"); uses == g.NoToken {
			t.Errorf("%s uses a token: %v", g.Name, uses)
		}
	}
}

// The places of the files themselves change nothing, so the tests of the examples run what the console shows.
func TestGateway_ExamplePlacesAreThoseOfTheFiles(t *testing.T) {
	for i := range Gateways {
		g := &Gateways[i]
		p := ExamplePlaces()
		switch g.Name {
		case "traefik":
			p.Profile = "shop-network"
		case "envoy":
			p.Profile = "shop-envoy"
		}
		for _, f := range g.Fill(p).Files {
			want, err := os.ReadFile(filepath.Join("gateways", g.Name, f.Name))
			if err != nil {
				t.Fatal(err)
			}
			if f.Text != string(want) {
				t.Errorf("%s/%s is not the file", g.Name, f.Name)
			}
		}
	}
}

func TestGateway_CaddyListensOnEveryAddress(t *testing.T) {
	p := ExamplePlaces()
	p.Clients = "0.0.0.0:8000"
	text := GatewayNamed("caddy").Fill(p).Files[0].Text
	if !strings.Contains(text, "\nhttp://:8000 {\n\tbind 0.0.0.0\n") {
		t.Errorf("Caddy serves one host only:\n%s", text)
	}
	if GatewayNamed("none") != nil {
		t.Error("a gateway that does not exist")
	}
}
