package main

import (
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chromedp/chromedp"

	"sluice/internal/history"
	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// documented are the pages in docs/console.md, by their names in the gallery.
var documented = []string{
	"overview-fleet", "rules", "rule-edit", "rule-conflict", "rule-shadow", "fail-modes-failing", "explain-denial",
	"denials", "key", "people", "traffic", "incidents", "search-key", "audit", "import-plan", "overrides",
	"alerts", "webhook",
}

// pictureWidth is how wide the pages of the documentation are, in pixels.
const pictureWidth = 1280

// gutter is the width that pages keep free for a scroll bar, which pictures leave out.
const gutter = 15

// maxPicture is the maximum size of a picture in bytes.
const maxPicture = 150_000

// loadedAndLive is true when a page has loaded and, if it is live, has its first update.
const loadedAndLive = `(() => {
	const live = document.querySelector("[data-live]");
	return document.readyState === "complete" && (!live || live.dataset.state === "live");
})()`

// height is the full height of a page, with its navigation.
const height = `Math.ceil(Math.max(...[...document.querySelectorAll("main, .side")].map(e => e.scrollHeight)))`

// document takes the pictures of the documentation: light, cropped to the content, at the time of the canned data.
func document(said io.Writer, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	browser, err := browsertest.Start()
	if err != nil {
		return err
	}
	defer browser.Close()
	byName := map[string]webtest.Shown{}
	for _, s := range webtest.Gallery() {
		byName[s.Name] = s
	}
	for _, name := range documented {
		shown, ok := byName[name]
		if !ok {
			return fmt.Errorf("the gallery has no page %s", name)
		}
		png, err := pictureOf(browser, &shown)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if png, err = reduce(png); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(png) > maxPicture {
			return fmt.Errorf("%s: the picture has %d bytes, more than %d", name, len(png), maxPicture)
		}
		if err := os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644); err != nil {
			return err
		}
	}
	fmt.Fprintf(said, "%d pictures in %s\n", len(documented), folder)
	return nil
}

// pictureOf serves a page from a world of its own and takes its picture.
func pictureOf(browser *browsertest.Browser, shown *webtest.Shown) ([]byte, error) {
	w, err := webtest.New(shown.Kind)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Close() }()
	if shown.Prepare != nil {
		shown.Prepare(w)
	}
	tidy(w)
	server := httptest.NewServer(w)
	defer server.Close()
	defer server.CloseClientConnections() // streams never end by themselves
	tab, err := browser.Open()
	if err != nil {
		return nil, err
	}
	defer tab.Close()
	for _, step := range []func() error{
		func() error { return tab.SetCookies(server.URL, w.As(shown.Role).Cookies()) },
		func() error { return tab.Zone("Europe/Berlin") },
		func() error { return tab.At(webtest.Now) },
		func() error { return tab.Show(pictureWidth+gutter, 400, false) },
		func() error { return visit(tab, server.URL, w, shown) },
		func() error { return wait(tab, loadedAndLive) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
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

// tidy removes data from a world that is there only for tests.
func tidy(w *webtest.World) {
	w.Fleet.Denied = slices.DeleteFunc(w.Fleet.Denied, func(d history.Request) bool {
		return strings.Contains(d.Key,
			"<")
	})
	w.Log.List = w.Log.List[:min(12, len(w.Log.List))]
}

func visit(tab *browsertest.Tab, site string, w *webtest.World, shown *webtest.Shown) error {
	if shown.Form == nil {
		return tab.Go(site + w.Fill(shown.Path))
	}
	if err := tab.Go(site + "/console/sign-in"); err != nil {
		return err
	}
	return tab.Send(w.Fill(shown.Path), shown.Form)
}

// wait waits until an expression is true.
func wait(tab *browsertest.Tab, expression string) error {
	_, err := chromedp.Run(tab.Ctx, chromedp.Poll[bool](expression))
	return err
}
