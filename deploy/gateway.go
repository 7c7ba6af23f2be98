package deploy

import (
	"embed"
	"net"
	"path"
	"slices"
	"strings"
)

// files are the texts of the examples in the folder gateways.
//
//go:embed gateways/nginx/nginx.conf gateways/nginx/README.md gateways/caddy/Caddyfile gateways/caddy/README.md
//go:embed gateways/haproxy/haproxy.cfg gateways/haproxy/sluice.lua gateways/haproxy/README.md
//go:embed gateways/traefik/traefik.yaml gateways/traefik/dynamic.yaml gateways/traefik/README.md
//go:embed gateways/envoy/envoy.yaml gateways/envoy/README.md
//go:embed gateways/apisix/apisix.yaml gateways/apisix/config.yaml gateways/apisix/README.md
//go:embed gateways/kong/kong.yaml gateways/kong/sluice.lua gateways/kong/README.md
var files embed.FS

// Gateway is one of the examples in the folder gateways, with its differences from the others.
type Gateway struct {
	// Name is the folder, Title the name for people.
	Name, Title string
	files       []string
	// Folder is the folder of the gateway that the files belong in; "" means that any folder will do.
	Folder string
	// NoToken means that the gateway cannot send a token. It proves itself by the address of its connection.
	NoToken bool
	// Appends means that the gateway appends its own address to X-Forwarded-For.
	Appends bool
}

// Gateways are the gateways with an example that Fill can adapt.
var Gateways = []Gateway{
	{Name: "nginx", Title: "nginx", files: []string{"nginx.conf"}},
	{Name: "caddy", Title: "Caddy", files: []string{"Caddyfile"}},
	{Name: "haproxy", Title: "HAProxy", files: []string{"haproxy.cfg", "sluice.lua"}},
	{Name: "traefik", Title: "Traefik", files: []string{"traefik.yaml", "dynamic.yaml"}, NoToken: true},
	{Name: "envoy", Title: "Envoy", files: []string{"envoy.yaml"}, Appends: true},
	{Name: "apisix", Title: "APISIX", files: []string{"apisix.yaml", "config.yaml"}, Folder: "conf"},
	{Name: "kong", Title: "Kong", files: []string{"kong.yaml", "sluice.lua"}},
}

// GatewayNamed returns the gateway of a name, nil if there is none.
func GatewayNamed(name string) *Gateway {
	if i := slices.IndexFunc(Gateways, func(g Gateway) bool { return g.Name == name }); i >= 0 {
		return &Gateways[i]
	}
	return nil
}

// Places are what differs from one installation to the next. Addresses are a host and a port; all are required.
type Places struct {
	// Sluice is where a node listens, Clients where the gateway does, App where the application does.
	Sluice, Clients, App string
	// Profile is the name of the profile, Header the client's header that it reads.
	Profile, Header string
}

// examplePlaces are the places in the files.
var examplePlaces = Places{Sluice: "127.0.0.1:8080", Clients: "127.0.0.1:8000", App: "127.0.0.1:9000",
	Profile: "shop", Header: "X-Api-Key"}

// ExamplePlaces returns the places as they are in the files.
func ExamplePlaces() Places { return examplePlaces }

// Example is the example of a gateway for certain places.
type Example struct {
	Files []File
	// Install installs the gateway on Debian; "" if Debian has no package. Start starts it in the folder with the files,
	// with the token in SLUICE_TOKEN. Try sends requests through it. All three are lines for a shell.
	Install, Start, Try string
}

// File is a file that the gateway reads.
type File struct{ Name, Text string }

// Fill returns the example of a gateway for places.
func (g *Gateway) Fill(p Places) Example {
	fill := g.filler(p)
	e := Example{}
	for _, name := range g.files {
		e.Files = append(e.Files, File{Name: name, Text: fill.Replace(g.read(name))})
	}
	_, commands, _ := strings.Cut(g.read("README.md"), "```sh\n")
	commands, _, _ = strings.Cut(commands, "```")
	for line := range strings.Lines(fill.Replace(commands)) {
		switch {
		case strings.HasPrefix(line, "apt-get "):
			e.Install += line
		case strings.HasPrefix(line, "for i in "):
			e.Try += line
		default:
			e.Start += line
		}
	}
	return e
}

// read reads a file, which is embedded.
func (g *Gateway) read(name string) string {
	text, err := files.ReadFile(path.Join("gateways", g.Name, name))
	if err != nil {
		panic(err) // a test reads all of them
	}
	return string(text)
}

// filler replaces the places of the files. If two texts begin at the same place, it replaces the first one.
func (g *Gateway) filler(p Places) *strings.Replacer {
	pairs := []string{}
	for was, is := range map[string]string{examplePlaces.Sluice: p.Sluice, examplePlaces.Clients: p.Clients,
		examplePlaces.App: p.App} {
		wasHost, wasPort, _ := net.SplitHostPort(was)
		host, port, _ := net.SplitHostPort(is)
		if strings.Contains(host, ":") { // an IPv6 address
			host = `"` + host + `"`
		}
		pairs = append(pairs, "address: "+wasHost+", port_value: "+wasPort, "address: "+host+", port_value: "+port)
		if was != examplePlaces.Clients {
			continue
		}
		pairs = append(pairs, "ip: "+wasHost+"\n      port: "+wasPort, "ip: "+host+"\n      port: "+port,
			"bind "+wasHost+"\n", "bind "+strings.Trim(host, `"`)+"\n")
		if ip := net.ParseIP(strings.Trim(host, `"`)); ip != nil && ip.IsUnspecified() {
			pairs = append(pairs, "\nhttp://"+was+" {", "\nhttp://:"+port+" {") // Caddy takes the address for a host
		}
	}
	pairs = append(pairs, examplePlaces.Sluice, p.Sluice, examplePlaces.Clients, p.Clients, examplePlaces.App, p.App)
	for _, name := range []string{"shop-network", "shop-envoy", "shop"} {
		for _, before := range []string{"/ratelimit/nginx/", "/ratelimit/forward/", "/ratelimit/ext_authz/", "lua.sluice "} {
			pairs = append(pairs, before+name, before+p.Profile)
		}
	}
	lower := strings.ToLower(p.Header)
	pairs = append(pairs, `profile = "shop"`, `profile = "`+p.Profile+`"`, "X-Api-Key", p.Header, "x-api-key", lower,
		"$http_x_api_key", "$http_"+strings.ReplaceAll(lower, "-", "_"))
	return strings.NewReplacer(pairs...)
}
