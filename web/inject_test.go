//go:build sweep

package web_test

import (
	"hash/maphash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode"
	"unicode/utf8"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// entry is a form of the gallery, with the page it stands on.
type entry struct {
	shown webtest.Shown
	form  form
}

// entries are the forms of the gallery with each of their buttons, each once:
// forms that go to the same route with the same fields are one.
func entries(t *testing.T) []entry {
	t.Helper()
	var all []entry
	seen := map[string]bool{}
	for _, s := range visitGallery(t) {
		if s.Kind == webtest.Failing {
			continue // its forms are those of other pages, and every answer is a failure
		}
		for _, f := range formsOf(t, s.page.Body, s.Path) {
			if f.action == "/console/sign-out" {
				continue
			}
			for _, by := range f.pressed() {
				id := by.method + " " + patternOf(by.method, by.action)
				for _, c := range by.controls {
					id += " " + c.name
				}
				if !seen[id] {
					seen[id] = true
					all = append(all, entry{s.Shown, by})
				}
			}
		}
	}
	return all
}

// visitor is a browser in the world of an entry.
func (e *entry) visitor(t *testing.T) (*webtest.World, *webtest.Browser) {
	t.Helper()
	w := world(t, e.shown.Kind)
	if e.shown.Prepare != nil {
		e.shown.Prepare(w)
	}
	return w, w.As(e.shown.Role)
}

// send does what a browser does with a form. The refusal of a read replica, which gives back what was typed, is as a
// page of the primary, to which it links.
func (e *entry) send(b *webtest.Browser, values url.Values) webtest.Page {
	if e.form.method == http.MethodPost {
		page := b.Post(e.form.action, values)
		if e.shown.Kind == webtest.Replica && page.Code == http.StatusServiceUnavailable {
			page.Code, page.Body = http.StatusOK, strings.ReplaceAll(page.Body, `href="`+webtest.Primary+"/", `href="/`)
		}
		return page
	}
	path, _, _ := strings.Cut(e.form.action, "?")
	return b.Get(path + "?" + values.Encode())
}

// batch is a few payloads of one class that are typed one behind the other.
type batch []browsertest.Payload

func (b batch) text() string {
	texts := make([]string, len(b))
	for i, p := range b {
		texts[i] = p.Text
	}
	return strings.Join(texts, " ")
}

// batches are all payloads as they are typed: of each class a few together, in as
// many bytes as a field takes. Some stay alone: those that only work at the
// beginning of a text, and those with characters that a field may refuse, so that
// they do not keep the others out.
func batches(all []browsertest.Payload, size int) []batch {
	var out []batch
	alone, bytes := true, 0 // of the last one
	for _, p := range all {
		last := len(out) - 1
		single := p.Class == "address" || strings.ContainsFunc(p.Text,
			func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
		if bytes += 1 + len(p.Text); single || alone || bytes > size || out[last][0].Class != p.Class {
			out, alone, bytes = append(out, batch{p}), single, len(p.Text)
		} else {
			out[last] = append(out[last], p)
		}
	}
	for i, b := range out { // a field that shows the beginning of a text shows another kind each time
		at := i % len(b)
		out[i] = slices.Concat(b[at:], b[:at])
	}
	return out
}

// fitting are the payloads of at most a few bytes.
func fitting(all []browsertest.Payload, size int) []browsertest.Payload {
	return slices.DeleteFunc(slices.Clone(all), func(p browsertest.Payload) bool { return len(p.Text) > size })
}

// TestInject_FormsGiveBackEveryPayloadAsText sends every payload through every
// text field of every form, each field another payload at a time, and then
// through every field that a browser would not let anyone type into.
func TestInject_FormsGiveBackEveryPayloadAsText(t *testing.T) {
	if n := len(browsertest.Payloads()); n < 200 {
		t.Fatalf("%d payloads, want 200", n)
	}
	payloads := batches(browsertest.Payloads(), 1000)
	for _, e := range entries(t) {
		t.Run(strings.TrimPrefix(e.form.action, "/console/")+" on "+e.shown.Name, func(t *testing.T) {
			t.Parallel()
			_, b := e.visitor(t)
			for n := range payloads {
				values, at := e.form.values(), n
				for _, c := range e.form.controls {
					if c.typed() || n%4 == 0 && c.name != "" {
						values.Set(c.name, payloads[at%len(payloads)].text())
						at++
					}
				}
				harmless(t, payloads[n][0].Class, e.send(b, values))
				if t.Failed() {
					return // one is enough to understand
				}
			}
		})
	}
}

// found are the pages that were found inert, by their sum: many requests get the
// same page.
var (
	found sync.Map
	seed  = maphash.MakeSeed()
)

// harmless fails the test if an answer could run anything, is a failure, or took
// a payload into its headers.
func harmless(t *testing.T, class string, page webtest.Page) {
	t.Helper()
	if page.Code >= http.StatusInternalServerError {
		t.Errorf("class %s: %d\n%.2000s", class, page.Code, page.Body)
	}
	if strings.HasPrefix(page.Header.Get("Content-Type"), "text/html") {
		sum := maphash.String(seed, page.Body)
		if _, again := found.Load(sum); !again {
			if err := inert(page.Body); err != nil {
				t.Errorf("class %s: %v", class, err)
			} else {
				found.Store(sum, true)
			}
		}
	}
	for name, values := range page.Header {
		if text := strings.Join(values, ""); name == "X-Injected" || strings.ContainsAny(text, "\r\n\x00") ||
			name != "Location" && strings.Contains(text, "canary") {
			t.Errorf("class %s: header %s: %q", class, name, text)
		}
	}
	if to := page.Header.Get("Location"); to != "" && (!strings.HasPrefix(to, "/console") || strings.Contains(to, "//")) {
		t.Errorf("class %s: leads to %q", class, to)
	}
}

// TestInject_WhatIsStoredStaysText finds the fields that take a payload as it is,
// gives them all of them, and looks at every page with them in place.
func TestInject_WhatIsStoredStaysText(t *testing.T) {
	payloads := browsertest.Payloads()
	done := map[string]bool{} // by route and field: a route may have several buttons
	var stored atomic.Int64
	t.Run("forms", func(t *testing.T) {
		for _, e := range entries(t) {
			if e.form.method != http.MethodPost || e.shown.Role == "" || e.shown.Form != nil {
				continue
			}
			var fields []string
			for _, c := range e.form.controls {
				if id := patternOf(http.MethodPost, e.form.action) + " " + c.name; c.typed() && !done[id] {
					done[id], fields = true, append(fields, c.name)
				}
			}
			t.Run(strings.TrimPrefix(e.form.action, "/console/")+" on "+e.shown.Name, func(t *testing.T) {
				t.Parallel()
				long, short := e.free(t, fields, payloads)
				e.store(t, long, batches(payloads, rules.MaxReason))
				e.store(t, short, batches(fitting(payloads, rules.MaxTierName), rules.MaxTierName))
				stored.Add(int64(len(long) + len(short)))
			})
		}
	})
	if stored.Load() == 0 {
		t.Error("nothing was stored, so nothing was tried")
	}
}

// free are the fields that take one of two payloads, the rest of the form as it
// was: those that take a batch as well, and those that are too short for one. What
// is longer than a short field they refuse, and give back, which is the matter of
// the test above.
func (e *entry) free(t *testing.T, fields []string, payloads []browsertest.Payload) (long, short []string) {
	t.Helper()
	several := batches(payloads, rules.MaxReason)
	for i, field := range fields {
		_, b := e.visitor(t)
		takes := func(p batch) bool {
			values := e.form.values()
			values.Set(field, p.text())
			page := e.send(b, values)
			harmless(t, p[0].Class+" in "+field, page)
			return page.Code == http.StatusSeeOther
		}
		switch two := batch(payloads[i%9 : i%9+2]); {
		case takes(several[i%9]):
			long = append(long, field)
		case takes(two[:1]) || takes(two[1:]):
			short = append(short, field)
		}
	}
	return long, short
}

// store sends every payload in every one of the fields, and then looks at every
// page. A request holds a batch in each field. Where that is refused, each half of
// the fields is sent on its own, and at last each payload in each field.
func (e *entry) store(t *testing.T, fields []string, payloads []batch) {
	t.Helper()
	if len(fields) == 0 {
		return
	}
	t.Logf("%q take free text", fields)
	w, b := e.visitor(t)
	form := e.form.values() // made for the version that is stored
	var send func(fields []string, in map[string]batch)
	send = func(fields []string, in map[string]batch) {
		values := maps.Clone(form)
		for _, field := range fields {
			values.Set(field, in[field].text())
		}
		class := in[fields[0]][0].Class + " in " + strings.Join(fields, ", ")
		page := e.send(b, values)
		harmless(t, class, page)
		switch half, alone := len(fields)/2, in[fields[0]]; {
		case page.Code == http.StatusSeeOther:
			harmless(t, class, b.Get(page.Header.Get("Location")))
			form = e.again(t, w, b)
		case page.Code == http.StatusNotFound || page.Code == http.StatusConflict: // it can be sent once
			w, b = e.visitor(t)
			form = e.form.values()
			harmless(t, class, e.send(b, values))
		case half > 0:
			send(fields[:half], in)
			send(fields[half:], in)
		case len(alone) > 1:
			for _, p := range alone {
				send(fields, map[string]batch{fields[0]: {p}})
			}
		}
	}
	for n := range payloads {
		if t.Failed() {
			return // one is enough to understand
		}
		in := map[string]batch{}
		for i, field := range fields {
			in[field] = payloads[(n+i)%len(payloads)]
		}
		send(fields, in)
	}
	admin := w.As(access.RoleAdmin)
	for _, s := range webtest.Gallery() {
		if s.Form == nil && s.Role != "" {
			harmless(t, e.form.action+" on "+s.Name, admin.Get(pathOf(w, &s)))
		}
	}
}

// again is what a browser sends after loading the form's page once more, for a
// form carries the version that it was made for.
func (e *entry) again(t *testing.T, w *webtest.World, b *webtest.Browser) url.Values {
	t.Helper()
	path := pathOf(w, &e.shown)
	for _, f := range formsOf(t, b.Get(path).Body, path) {
		for _, by := range f.pressed() {
			if by.action == e.form.action && len(by.controls) == len(e.form.controls) {
				return by.values()
			}
		}
	}
	return e.form.values()
}

// pathOf is the path of a page, for which a job may have to run first.
func pathOf(w *webtest.World, s *webtest.Shown) string {
	if strings.HasPrefix(s.Path, "$") {
		return w.Fill(s.Path)
	}
	return s.Path
}
