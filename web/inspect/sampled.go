package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"sluice/internal/history"
	"sluice/rules/chars"
	"sluice/web/kit"
	"sluice/web/view"
)

// pathRequest is the page of a sampled request, in the notation of Echo.
const pathRequest = kit.PathRequests + "/:id"

// requestPath is the address of the page of a sampled request.
func requestPath(id string) string { return kit.PathRequests + "/" + url.PathEscape(id) }

// Sampled is the page of a sampled request, which lists also show in a side sheet.
type Sampled struct {
	explained
	// IDs maps names of rules in force to their IDs.
	IDs  map[string]int64
	Then Then
	// JSON is the request as it is stored.
	JSON string
}

// sampledPage shows a sampled request. Scripts get only its part for the side sheet.
func (p *Pages) sampledPage(v *kit.Visit) error {
	id, err := url.PathUnescape(v.Param("id"))
	if err != nil {
		return kit.ErrMissing
	}
	d, found, err := p.Denials.Request(v.Ctx, id)
	switch {
	case err != nil:
		return p.countersUnavailable(err)
	case !found && v.HTMX():
		return v.Page(http.StatusNotFound, sampledGone())
	case !found:
		return v.Page(http.StatusNotFound, sampledGonePage(v.Frame("Request", kit.PathDenials)))
	}
	m := Sampled{explained: explained{d}, IDs: p.IDs(append([]string{d.Rule}, d.Also...)...),
		Then: p.explainThen(v.Ctx, &d)}
	if m.JSON, err = rawJSON(&d); err != nil {
		return err
	}
	if v.HTMX() {
		return v.Page(http.StatusOK, sampledParts(m))
	}
	return v.Page(http.StatusOK, sampledPage(v.Frame(m.Title(), kit.PathDenials), m))
}

// rawJSON is a request as it is stored, with \u for characters that are not visible.
func rawJSON(d *history.Request) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false) // the page escapes it
	enc.SetIndent("", "  ")
	if err := enc.Encode(d); err != nil {
		return "", err
	}
	var text strings.Builder
	for _, r := range strings.TrimSuffix(out.String(), "\n") {
		switch {
		case r == '\n' || chars.Visible(r):
			text.WriteRune(r)
		case r > 0xffff: // a surrogate pair
			r -= 0x10000
			fmt.Fprintf(&text, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			fmt.Fprintf(&text, `\u%04x`, r)
		}
	}
	return text.String(), nil
}

// Title says how the request ended.
func (m *Sampled) Title() string {
	switch m.Outcome() {
	case history.Allowed:
		return "Allowed request"
	case history.Denied:
		return "Denied request"
	}
	return "Request that would have been denied"
}

// facts are the stored facts of the request, with their names.
func (m *Sampled) facts() (list [][2]string) {
	for _, f := range [][2]string{{"Host", m.Host}, {"User", m.User}, {"IP address", m.IP}, {"Tier", m.Tier}} {
		if f[1] != "" {
			list = append(list, f)
		}
	}
	for _, name := range sortedNames(m.Attributes) {
		list = append(list, [2]string{"Attribute " + name, m.Attributes[name]})
	}
	return list
}

// list is the address of the list that begins with the request.
func (m *Sampled) list() string {
	to, _, _ := strings.Cut(m.link(), "#")
	return to
}

// partBadge is the kind of the badge of a part.
func partBadge(part string) string {
	switch part {
	case partDenied:
		return "bad"
	case partWould:
		return "info"
	}
	return "plain"
}

// explainNow is the address that explains the request by the rules in force now.
func (m *Sampled) explainNow() string {
	return view.NewQuery(kit.PathExplain, nil).With("denial", m.ID)
}
