package manifests

import (
	"os"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
)

// around stands in for Kong and for resty.http, which would send the request.
const around = `
kong = {
  request = {
    -- Kong's: without the headers after the first hundred, of which this client has sent as many.
    get_headers = function() return {["X-Filler"] = "x"} end,
    get_header = function(name) return ({["X-Api-Key"] = "k-kong", Cookie = "secret"})[name] end,
    get_method = function() return "POST" end,
    get_host = function() return "shop.example.com" end,
  },
  client = {get_forwarded_ip = function() return "203.0.113.7" end},
  response = {
    exit = function(status, body, headers) exited = {status = status, body = body, headers = headers or {}} end,
    set_header = function(name, value) shown[name] = value end,
  },
  log = {warn = function() warned = true end, err = function() failed = true end},
  ctx = {shared = {}},
}
slept = 0
ngx = {var = {request_uri = "/users/17?x=1"}, sleep = function(seconds) slept = slept + seconds end}
shown = {}
package.preload["resty.http"] = function()
  return {new = function()
    return {
      set_timeout = function(self, ms) timeout = ms end,
      request_uri = function(self, url, options) asked = {url = url, options = options}; return answer, "refused" end,
    }
  end}
end
`

// ask runs the plugin for one request that Sluice answers with answer, a Lua expression.
func ask(t *testing.T, answer string) *lua.LState {
	t.Helper()
	l := lua.NewState()
	t.Cleanup(l.Close)
	plugin, err := os.ReadFile("../kong/sluice.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, chunk := range []string{
		around + "answer = " + answer,
		`package.preload.sluice = assert(loadstring(` + quoted(string(plugin)) + `))`,
		`access = require("sluice").new{url = "http://127.0.0.1:8080", profile = "shop", token = "{token}",
			request_headers = {"X-Api-Key"}}; access(); require("sluice").show()`,
	} {
		if err := l.DoString(chunk); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func quoted(s string) string { return "[==[" + s + "]==]" }

func text(t *testing.T, l *lua.LState, expression string) string {
	t.Helper()
	if err := l.DoString("result = tostring(" + expression + ")"); err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return l.GetGlobal("result").String()
}

func TestKong_AsksWhatIsRecorded(t *testing.T) {
	l := ask(t, `{status = 200, headers = {RateLimit = '"shop-key";r=4'}}`)
	recorded, err := os.ReadFile("../testdata/kong.http")
	if err != nil {
		t.Fatal(err)
	}
	headers := 0
	for line := range strings.Lines(string(recorded)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || strings.HasPrefix(line, "#") || name == "Host" || name == "User-Agent" { // resty.http adds these two
			continue
		}
		headers++
		if got := text(t, l, `asked.options.headers["`+name+`"]`); got != value {
			t.Errorf("%s is %q, recorded is %q", name, got, value)
		}
	}
	if err := l.DoString(`count = 0; for _ in pairs(asked.options.headers) do count = count + 1 end`); err != nil {
		t.Fatal(err)
	}
	if n := l.GetGlobal("count").String(); n != "7" || headers != 7 {
		t.Errorf("the request has %s headers, %d are recorded", n, headers)
	}
	target := text(t, l, `asked.options.method .. " " .. asked.url`)
	if target != "GET http://127.0.0.1:8080/ratelimit/forward/shop" ||
		!strings.Contains(string(recorded), "GET /ratelimit/forward/shop HTTP/1.1\n") {
		t.Errorf("the request is %s", target)
	}
	if exited, shown := text(t, l, "exited"), text(t, l, "shown.RateLimit"); exited != "nil" || shown != `"shop-key";r=4` {
		t.Errorf("an allowed request: exit %s, RateLimit %s", exited, shown)
	}
}

// shown are the headers that clients get, on allowed and on denied requests.
var shown = []string{
	"RateLimit-Policy", "RateLimit", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Mode",
}

func TestKong_ClientsGetTheHeaders(t *testing.T) {
	for status, at := range map[string]string{"200": "shown", "429": "exited.headers"} {
		answer := "{status = " + status + `, body = "", headers = {Server = "x"`
		for _, name := range shown {
			answer += `, ["` + name + `"] = "value of ` + name + `"`
		}
		l := ask(t, answer+"}}")
		for _, name := range shown {
			if got := text(t, l, at+`["`+name+`"]`); got != "value of "+name {
				t.Errorf("with status %s, %s is %s", status, name, got)
			}
		}
		if got := text(t, l, at+".Server"); got != "nil" {
			t.Errorf("with status %s, Server is %s", status, got)
		}
	}
}

func TestKong_PassesOnDenialsAndFailsOpen(t *testing.T) {
	tests := []struct{ answer, exited, body, retry string }{
		{`{status = 429, body = "why", headers = {["Retry-After"] = "60", Server = "x"}}`, "429", "why", "60"},
		{`{status = 503, body = "why", headers = {["Retry-After"] = "1"}}`, "503", "why", "1"},
		{`{status = 401, body = "no token", headers = {}}`, "500", "nil", "nil"},
		{`{status = 400, body = "a", headers = {["Content-Type"] = "application/problem+json"}}`, "500", "nil", "nil"},
		{`{status = 400, body = "a header is malformed", headers = {["Content-Type"] = "text/plain; charset=utf-8"}}`,
			"400", "a header is malformed", "nil"},
		{`{status = 500, body = "", headers = {}}`, "", "", ""},
		{`nil`, "", "", ""},
	}
	for _, tt := range tests {
		l := ask(t, tt.answer)
		if tt.exited == "" {
			if text(t, l, "exited") != "nil" || text(t, l, "warned") != "true" {
				t.Errorf("%s: the request does not pass", tt.answer)
			}
			continue
		}
		status, body := text(t, l, "exited.status"), text(t, l, "exited.body")
		retry, server := text(t, l, `exited.headers["Retry-After"]`), text(t, l, "exited.headers.Server")
		if status != tt.exited || body != tt.body || retry != tt.retry || server != "nil" {
			t.Errorf("%s: status %s, body %s, Retry-After %s, Server %s", tt.answer, status, body, retry, server)
		}
	}
}

// A request and a denial wait as long as the answer says, unless as many wait already as may.
func TestKong_Waits(t *testing.T) {
	for _, status := range []string{"200", "429"} {
		for most, want := range map[string]string{"1": "0.25", "0": "0"} {
			l := ask(t, `{status = `+status+`, headers = {["X-RateLimit-Delay-Ms"] = "250"}}`)
			if err := l.DoString(`assert(slept == 0.25); slept = 0
				require("sluice").new{url = "", profile = "", token = "", request_headers = {}, most_waiting = ` + most + `}()
				assert(slept == ` + want + `, slept)`); err != nil {
				t.Errorf("%s, at most %s: %v", status, most, err)
			}
		}
	}
}
