package app

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Addresses of figures and incidents that nobody types: each is answered with the page or the data, or with 4xx and
// what is wrong with which parameter, and never with 5xx.
func TestFigures_HostileAddressesAreAnsweredInWords(t *testing.T) {
	t.Parallel()
	n := start(t, withConsole(t))
	p := asAdmin(t, n)
	n.create(`{"name":"one","scope":"user","limit":1,"window_ms":86400000}`)
	n.check(`{"user":"u"}`)
	const day = "2026-11-23T00:00:00Z"
	wrong := []string{ // on pages with a range, and in the API of figures
		"from=2026-11-24T00:00:00Z&to=" + day, "from=" + day + "&to=" + day, "from=1000-01-01T00:00:00Z", "from=x", "to=%00",
		"from=9999-12-31T23:00:00Z&to=9999-12-31T23:59:59Z", "from=99999-12-31T00:00:00Z", "from=2026-02-30T00:00",
		"from=" + strings.Repeat("9", 9000), "to=%2BInf", "from=1763900000", "from=2026-11-23T12:00:00+01:00",
		"from=0001-01-01T00:00:00Z&to=9999-12-31T23:59:59Z", "to=9999-12-31T23:59:59Z",
	}
	pages := []string{"range=ever", "compare=never", "zone=Mars/X&from=2026-11-23T00:00", "from=1970-01-01T00:00:00Z",
		"zone=../../etc/passwd&from=2026-11-23T00:00", "zone=Local&from=2026-11-23T00:00"}
	traffic := []string{"by=planet", "by=%00", "rule=nope", "rule=%00", "rule=%ff%fe", "rule=@127.0.0.1:1",
		"rule=%3Cscript%3E", "rule=" + strings.Repeat("a", 5000)}
	api := append(slices.Clone(traffic), "by=node&rule=one", "step=week", "step=second&from=2020-01-01T00:00:00Z",
		"node=x",
		"step=minute&from=2026-01-01T00:00:00Z&to=2026-11-01T00:00:00Z", "format=xml", "by=rule&by=key", "a=1;b=2", "%zz=1")
	fine := []string{"%zz=1", "from=%zz", "a=1;b=2", "rule[]=x", "by=node&rule=one", "by=rule&by=key",
		"sort=planet&desc=maybe",
		"q=" + strings.Repeat("x", 3000), "q=%3Cscript%3Ealert(1)%3C/script%3E", "compare=yesterday&range=90d",
		"compare=previous&from=1970-01-02T00:00:00Z&to=1983-01-01T00:00:00Z",
		"from=2500-01-01T00:00:00Z&to=2500-01-02T00:00:00Z"}
	incidents := []string{"range=ever", "from=noon", "to=1", "from=1000-01-01T00:00:00Z",
		"from=2026-11-24T00:00:00Z&to=" + day}
	alert := regexp.MustCompile(`(?s)(role="alert"|class="error"|aria-invalid="true").*(must|too long|no rule)`)
	named := regexp.MustCompile(`"field":"[^"]+","message":"[^"]+"|not in force|query string is malformed`)
	for _, c := range []struct {
		path   string
		status int
		says   *regexp.Regexp
		asks   []string
	}{
		{"/console/traffic", http.StatusUnprocessableEntity, alert, slices.Concat(wrong, pages, traffic)},
		{"/console", http.StatusUnprocessableEntity, alert, slices.Concat(wrong, pages)},
		{"/console/rules/1", http.StatusUnprocessableEntity, alert, slices.Concat(wrong, pages)},
		{"/console/incidents", http.StatusUnprocessableEntity, alert, incidents},
		{"/ratelimit/stats", 0, named, slices.Concat(wrong, api)},
		{"/ratelimit/incidents", 0, named, slices.Concat(incidents, []string{"by=rule", "format=xml", "rule=%00"})},
		{"/console/traffic", http.StatusOK, nil, fine}, {"/console", http.StatusOK, nil, fine},
		{"/console/incidents", http.StatusOK, nil, append(fine, "node=%00", "rule=%ff", "node="+strings.Repeat("n", 4000))},
	} {
		for _, ask := range c.asks {
			status, body := p.get(n.url + c.path + "?" + ask)
			if c.status == 0 && (status < 400 || status > 499) || c.status != 0 && status != c.status {
				t.Errorf("%s?%.80s: status %d, want %d", c.path, ask, status, c.status)
			}
			if c.says != nil && !c.says.MatchString(body) || strings.Contains(body, "<script>alert") {
				t.Errorf("%s?%.80s does not say what is wrong", c.path, ask)
			}
		}
	}
	page := "/console/traffic?by=key&q=acme&sort=name&compare=yesterday&zone=Europe/Berlin&from=2026-11-22T10:00" +
		"&to=2026-11-21T10:00"
	_, body := p.get(n.url + page)
	for _, kept := range []string{`value="2026-11-22T10:00"`, `value="2026-11-21T10:00"`, `value="Europe/Berlin"`,
		`value="acme"`, `name="by" value="key"`, `name="sort" value="name"`, `value="yesterday" selected`} {
		if !strings.Contains(body, kept) {
			t.Errorf("a reversed range loses %s", kept)
		}
	}
}
