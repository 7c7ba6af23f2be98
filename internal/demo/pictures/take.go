package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/web/browsertest"
)

// picture is a page of the documentation.
type picture struct {
	// Name is the name of the file, Path the path of the page. If the page is the target of a link on Path, Link
	// selects the link.
	Name, Path, Link string
	// Form, if not nil, is posted to Path.
	Form url.Values
	// Tallest cuts the picture off below so many pixels, 0 for not.
	Tallest int
}

// Pages of rules of the demo, which are numbered in the order of their names.
const charges, logins, search = "/console/rules/1", "/console/rules/3", "/console/rules/6"

// flooder is the address of the demo that tries passwords.
const flooder = "203.0.113.99"

// documented are the pictures in docs/console.md, in the order in which they are taken: the first ones while the flood
// is in the last minute.
var documented = []picture{
	{Name: "overview", Path: "/console"},
	{Name: "denials", Path: "/console/denials", Tallest: 900},
	{Name: "explain-denial", Path: "/console/denials?rule=logins-per-address", Link: `main tr:not(.repeat) a[href*="explain?denial="]`,
		Tallest: 1010},
	{Name: "key", Path: "/console/keys?" + url.Values{"rule": {"logins-per-address"}, "key": {"ip:" + flooder}}.Encode(),
		Tallest: 1300},
	{Name: "alerts", Path: "/console/alerts"},
	{Name: "rules", Path: "/console/rules"},
	{Name: "traffic", Path: "/console/traffic?range=24h"},
	{Name: "rule-edit", Path: logins + "/edit", Tallest: 1500},
	{Name: "rule-trial", Path: charges + "?range=24h"},
	{Name: "overrides", Path: charges + "/overrides"},
	{Name: "incidents", Path: "/console/incidents"},
	{Name: "fail-modes", Path: "/console/fail-modes"},
	{Name: "search-key", Path: "/console/search", Form: url.Values{"q": {"ip:" + flooder}}},
	{Name: "import-plan", Path: "/console/import", Form: url.Values{"text": {importedFile}}},
	{Name: "rule-conflict", Path: search, Form: url.Values{"version": {"1"}, "name": {"search-per-user"},
		"description": {"One search per second on average."}, "owner": {"catalogue"}, "scope": {"user"},
		"route": {"/v1/search"}, "algorithm": {"token_bucket"}, "limit": {"2"}, "window_ms": {"1"},
		"window_ms.unit": {"second"}, "burst": {"5"}, "fail_mode": {"open"}, "is_active": {"on"}}},
	{Name: "webhook", Path: "/console/alerts/webhooks/on-call"},
	{Name: "people", Path: "/console/people"},
	{Name: "audit", Path: "/console/audit", Tallest: 1100},
}

// importedFile changes a rule of the demo and creates one.
const importedFile = `rules:
  - name: charges-per-user
    description: Protects the card processor.
    owner: payments
    scope: user
    route: /v1/charges
    method: POST
    limit: 60
    window_ms: 60000
    fail_mode: local
  - name: refunds-per-user
    description: Refunds are rare.
    owner: payments
    scope: user
    route: /v1/refunds
    limit: 10
    window_ms: 60000
`

// write is what an administrator does before the pictures.
type write struct {
	path string
	form url.Values
}

// writes need a receiver of messages.
func writes(receiver string) []write {
	return []write{
		{"/console/tour", url.Values{"back": {"/console"}}},
		{"/console/people/new", url.Values{"name": {"grace"}, "role": {"editor"}, "by": {"password"},
			"password": {password + " of grace"}, "repeat": {password + " of grace"}}},
		{"/console/people/new", url.Values{"name": {"alan"}, "role": {"viewer"}, "by": {"password"},
			"password": {password + " of alan"}, "repeat": {password + " of alan"}}},
		{"/console/alerts/webhooks", url.Values{"name": {"on-call"}, "url": {receiver + "/on-call"},
			"format": {"standard"}, "denied_percent": {"50"}, "denied_per_second": {"0"}, "is_active": {"on"}}},
		{"/console/alerts/webhooks/on-call/test", url.Values{}},
	}
}

const password = "a long demo password"

const (
	// pictureWidth is how wide the pages of the documentation are, in pixels. It is a usual screen.
	pictureWidth = 1440
	// gutter is the width that pages keep free for a scroll bar, which pictures leave out.
	gutter = 15
	// maxPicture is the maximum size of a picture in bytes.
	maxPicture = 150_000
	// playedFor is how long the demo runs before its pictures: the flood of its start has just ended, and its alerts are
	// active.
	playedFor = 10 * time.Second
)

// loadedAndLive is true when a page has loaded and, if it is live, has received its first update.
const loadedAndLive = `(() => {
	const live = document.querySelector("[data-live]");
	return document.readyState === "complete" && (!live || live.dataset.state === "live");
})()`

// height is the full height of a page, with its navigation.
const height = `Math.ceil(Math.max(...[...document.querySelectorAll("main, .side")].map(e => e.scrollHeight)))`

// take signs in with the link of the demo and takes the pictures, light and cropped to the content.
func take(ctx context.Context, welcome, folder, only string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	browser, err := browsertest.Start()
	if err != nil {
		return err
	}
	defer browser.Close()
	tab, err := browser.Open()
	if err != nil {
		return err
	}
	defer tab.Close()
	link, err := url.Parse(welcome)
	if err != nil {
		return err
	}
	site := link.Scheme + "://" + link.Host
	form := url.Values{"token": {link.Query().Get("token")}, "name": {"ada"}, "password": {password},
		"repeat": {password}}
	for _, step := range []func() error{
		func() error { return tab.Show(pictureWidth+gutter, 900, false) },
		func() error { return tab.Go(welcome) },
		func() error { return tab.Send("/console/welcome", form) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // it accepts all
	defer receiver.Close()
	for _, w := range writes(receiver.URL) {
		if err := tab.Send(w.path, w.form); err != nil {
			return fmt.Errorf("%s: %w", w.path, err)
		}
		if status, err := tab.Status(); err != nil || status != http.StatusOK {
			return fmt.Errorf("%s: status %d: %w", w.path, status, err)
		}
	}
	select {
	case <-time.After(playedFor):
	case <-ctx.Done():
		return ctx.Err()
	}
	for i := range documented {
		p := &documented[i]
		if !strings.Contains(p.Name, only) {
			continue
		}
		png, err := pictureOf(tab, site, p)
		if err == nil {
			png, err = reduce(png, p.Tallest)
		}
		if err == nil && len(png) > maxPicture {
			err = fmt.Errorf("the picture has %d bytes, more than %d", len(png), maxPicture)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, p.Name+".png"), png, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
	}
	return nil
}

// pictureOf takes the picture of a page.
func pictureOf(tab *browsertest.Tab, site string, p *picture) ([]byte, error) {
	if err := tab.Show(pictureWidth+gutter, 400, false); err != nil {
		return nil, err
	}
	if err := visit(tab, site, p); err != nil {
		return nil, err
	}
	if err := wait(tab, loadedAndLive); err != nil {
		return nil, err
	}
	h, err := chromedp.Run(tab.Ctx, chromedp.Evaluate[int64](height))
	if err != nil {
		return nil, err
	}
	if err := tab.Show(pictureWidth+gutter, h, false); err != nil {
		return nil, err
	}
	if err := wait(tab, loadedAndLive); err != nil {
		return nil, err
	}
	return tab.Picture()
}

func visit(tab *browsertest.Tab, site string, p *picture) error {
	if p.Form != nil {
		return tab.Send(p.Path, p.Form)
	}
	if err := tab.Go(site + p.Path); err != nil || p.Link == "" {
		return err
	}
	return tab.Leave(chromedp.Click(p.Link))
}

// wait waits until an expression is true.
func wait(tab *browsertest.Tab, expression string) error {
	_, err := chromedp.Run(tab.Ctx, chromedp.Poll[bool](expression))
	return err
}
