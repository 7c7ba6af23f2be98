package gateways_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// badClients are headers that some gateways accept and Sluice does not.
var badClients = map[string]string{
	"24 KiB of headers":                     strings.Repeat("X-Long: "+strings.Repeat("a", 6<<10)+"\r\n", 4),
	"a control character":                   "X-Api-Key: a\x01b\r\n",
	"a control character in another header": "X-Other: a\x01b\r\n",
}

// badRequests sends requests with bad headers. The client made the error, not the gateway. If the
// gateway does not send the header to Sluice, Sluice decides the request.
func (e *example) badRequests(t *testing.T, p *product) {
	n, a := p.serve(t, freeAddr(t)), startApp(t)
	g := e.start(t, &setup{product: p, nodes: []string{n.addr}, app: a.addr})
	for name, headers := range badClients {
		c := dial(t, strings.TrimPrefix(g.url, "http://"))
		request := "GET /a HTTP/1.1\r\nHost: " + c.RemoteAddr().String() + "\r\n" + headers + "\r\n"
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
		case res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge:
			t.Errorf("%s: the client got %d %s", name, res.StatusCode, body)
		}
	}
	if log := g.Log(); strings.Contains(log, e.bad) {
		t.Errorf("it logged errors:\n%s", log)
	}
}
