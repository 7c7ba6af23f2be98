package inspect

import (
	"strings"
	"testing"
)

func TestParseCurl_ReadsWhatIsCopiedAround(t *testing.T) {
	tests := []struct{ command, method, address, body, header string }{
		{`curl https://api.example.com/v1/charges`, "GET", "https://api.example.com/v1/charges", "", ""},
		{`curl -X delete 'https://a/b?c=d&e=f'`, "DELETE", "https://a/b?c=d&e=f", "", ""},
		{`curl -XPUT --url=https://a/b -H 'X-User-ID: 42'`, "PUT", "https://a/b", "", "42"},
		{"curl \\\n  --request POST \\\n  --header \"X-User-Id: a \\\"b\\\" \\$c\" \\\n  https://a/b", "POST", "https://a/b",
			"", `a "b" $c`},
		{`curl -d a=1 -d b=2 a.example/x`, "POST", "http://a.example/x", "a=1&b=2", ""},
		{`curl --json '{"a":"it'\''s"}' https://a`, "POST", "https://a", `{"a":"it's"}`, ""},
		{`curl -G -d q=1 https://a`, "GET", "https://a", "q=1", ""},
		{`curl -sSLI https://a`, "HEAD", "https://a", "", ""},
		{`curl -so /dev/null --max-time 3 -- https://a`, "GET", "https://a", "", ""},
		{`curl $'https://a/\tb' --compressed -k`, "GET", "", "", ""},
		// Chrome writes an exclamation mark and control characters this way.
		{`curl 'https://a' -H $'x-user-id: it\'s \u0021\x41\101 \"\n\\'`, "GET", "https://a", "", "it's !AA \"\n\\"},
		{`curl -T file https://a`, "PUT", "https://a", "", ""},
	}
	for _, tt := range tests {
		got, err := parseCurl(tt.command)
		if tt.address == "" { // an address that cannot be
			if err == nil {
				t.Errorf("%s: read", tt.command)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		if got.method != tt.method || got.url.String() != tt.address || got.body != tt.body ||
			got.header["x-user-id"] != tt.header {
			t.Errorf("%s: %s %s %q %q", tt.command, got.method, got.url, got.body, got.header)
		}
	}
}

func TestParseCurl_SaysWhatIsWrong(t *testing.T) {
	for command, want := range map[string]string{
		"": "start with curl", "wget x": "start with curl", "curl": "no URL", "curl a b": "more than one",
		"curl 'a": "unclosed", "curl -H": "needs a value",
		"curl --request": "needs a value", "curl -@ a": "unknown option", "curl --no-such a": "unknown option",
		"curl a | sh": "one command", "curl http://a/?b=c&d=e": "quotes",
	} {
		if _, err := parseCurl(command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", command, err, want)
		}
	}
}

func FuzzParseCurl(f *testing.F) {
	f.Add(`curl -X POST -H 'a: b' "https://a/b" -d $'x\ny'`)
	f.Add("curl \\\r\n -sSLI -- -")
	f.Fuzz(func(t *testing.T, command string) {
		req, err := parseCurl(command)
		if err == nil && (req.url == nil || req.method == "") {
			t.Errorf("%q: half a request", command)
		}
	})
}
