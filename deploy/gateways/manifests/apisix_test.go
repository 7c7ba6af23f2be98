package manifests

import (
	"os"
	"slices"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"sigs.k8s.io/yaml"
)

// serverless is a plugin of APISIX that runs functions in Lua.
type serverless struct {
	Phase     string   `json:"phase"`
	Functions []string `json:"functions"`
}

// apisixPlugins are those of the example that concern the client's headers.
type apisixPlugins struct {
	ForwardAuth struct {
		ClientHeaders   []string `json:"client_headers"`
		UpstreamHeaders []string `json:"upstream_headers"`
	} `json:"forward-auth"`
	Before serverless `json:"serverless-pre-function"`
	After  serverless `json:"serverless-post-function"`
}

func apisix(t *testing.T) apisixPlugins {
	t.Helper()
	file, err := os.ReadFile("../apisix/apisix.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var routes struct {
		Routes []struct {
			Plugins apisixPlugins `json:"plugins"`
		} `json:"routes"`
	}
	if err := yaml.Unmarshal(file, &routes); err != nil || len(routes.Routes) != 1 {
		t.Fatalf("%+v, %v", routes, err)
	}
	return routes.Routes[0].Plugins
}

// aroundAPISIX stands in for nginx: the headers of a request, as ngx.var has them, and those of the response.
const aroundAPISIX = `
ngx = {header = {}, req = {}, var = {http_x_api_key = "k1"}}
local function var(name) return "http_" .. name:lower():gsub("-", "_") end
function ngx.req.clear_header(name) ngx.var[var(name)] = nil end
function set_header(name, value) ngx.var[var(name)] = value end
`

// The plugin forward-auth makes headers of the request of what Sluice answers. Before that the client's own headers of
// these names go, and afterwards they are sent to the client.
func TestAPISIX_ClientsGetTheHeaders(t *testing.T) {
	p := apisix(t)
	for _, name := range shown {
		if !slices.Contains(p.ForwardAuth.ClientHeaders, name) || !slices.Contains(p.ForwardAuth.UpstreamHeaders, name) {
			t.Errorf("%s is not in client_headers and upstream_headers", name)
		}
	}
	if p.Before.Phase != "rewrite" || p.After.Phase != "header_filter" {
		t.Errorf("the phases are %s and %s", p.Before.Phase, p.After.Phase)
	}
	l := lua.NewState()
	t.Cleanup(l.Close)
	do := func(chunk string) {
		t.Helper()
		if err := l.DoString(chunk); err != nil {
			t.Fatal(err)
		}
	}
	call := func(s serverless) {
		t.Helper()
		for _, f := range s.Functions {
			do("(function() " + f + " end)()({}, {})")
		}
	}
	do(aroundAPISIX)
	for _, name := range shown {
		do(`set_header("` + name + `", "forged")`)
	}
	call(p.Before)
	call(p.After)
	for _, name := range shown {
		if got := text(t, l, `ngx.header["`+name+`"]`); got != "nil" {
			t.Errorf("without an answer of Sluice, %s is %s", name, got)
		}
	}
	if got := text(t, l, "ngx.var.http_x_api_key"); got != "k1" {
		t.Errorf("X-Api-Key is %s", got)
	}
	for _, name := range p.ForwardAuth.UpstreamHeaders {
		do(`set_header("` + name + `", "value of ` + name + `")`)
	}
	call(p.After)
	for _, name := range shown {
		if got := text(t, l, `ngx.header["`+name+`"]`); got != "value of "+name {
			t.Errorf("%s is %s", name, got)
		}
	}
	if got := text(t, l, `ngx.header["X-Api-Key"]`); got != "nil" {
		t.Errorf("the client got X-Api-Key %s", got)
	}
}
