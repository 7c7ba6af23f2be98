package gateways_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// badClients are requests that some gateways accept and that Sluice refuses, or that the gateway
// cannot make a question of: targets and headers.
var badClients = map[string][2]string{
	"24 KiB of headers":                     {"/a", strings.Repeat("X-Long: "+strings.Repeat("a", 6<<10)+"\r\n", 4)},
	"a control character":                   {"/a", "X-Api-Key: a\x01b\r\n"},
	"a control character in another header": {"/a", "X-Other: a\x01b\r\n"},
	"a path of almost 15 KiB":               {"/" + strings.Repeat("a", 15155), ""},
	"95 keys":                               {"/a", strings.Repeat("X-Api-Key: a\r\n", 95)},
	"99 keys":                               {"/a", strings.Repeat("X-Api-Key: a\r\n", 99)},
}

// badRequests sends requests with bad headers. The client made the error, not the gateway. If the
// gateway does not send the header to Sluice, Sluice decides the request.
func (e *example) badRequests(t *testing.T, p *product) {
	n, a := p.serve(t, freeAddr(t)), startApp(t)
	g := e.start(t, &setup{product: p, nodes: []string{n.addr}, app: a.addr})
	for name, bad := range badClients {
		c := dial(t, strings.TrimPrefix(g.url, "http://"))
		request := "GET " + bad[0] + " HTTP/1.1\r\nHost: " + c.RemoteAddr().String() + "\r\n" + bad[1] + "\r\n"
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		decided, passed := res.Header.Get("RateLimit") != "", len(a.take()) > 0
		switch {
		case decided: // without the bad header
		case passed:
			t.Errorf("%s: the request passed without a decision", name)
		case res.StatusCode/100 != 4:
			t.Errorf("%s: the client got %d %s", name, res.StatusCode, body)
		}
	}
	if log := g.Log(); strings.Contains(log, e.bad) {
		t.Errorf("it logged errors:\n%s", log)
	}
}
