// Package browsertest drives a headless Chromium, for the tests of the console's journeys and for the pictures of its
// pages. One browser serves a whole test binary; every Tab is a separate window with separate cookies.
//
// A Tab collects the complaints of a page: errors in the console, exceptions of scripts, and violations of the
// Content-Security-Policy. A test fails on any.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Browser is one running Chromium. It is safe for concurrent use.
type Browser struct {
	ctx  context.Context
	stop []func()
}

var errNoChromium = errors.New("chromium is not installed: the Debian package is chromium, and make deps installs it")

// Start starts a browser with a fresh profile. Close it.
func Start() (*Browser, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, errNoChromium
	}
	dir, err := os.MkdirTemp("", "sluice-chromium-")
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("hide-scrollbars", true),
		chromedp.WSURLReadTimeout(time.Minute),
	)
	b := &Browser{stop: []func(){func() { _ = os.RemoveAll(dir) }}}
	alloc, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	b.stop = append(b.stop, cancel)
	b.ctx, cancel = chromedp.NewContext(alloc)
	b.stop = append(b.stop, cancel, func() { _ = chromedp.Cancel(b.ctx) })
	if err := chromedp.Do(b.ctx); err != nil {
		b.Close()
		return nil, fmt.Errorf("start chromium: %w", err)
	}
	return b, nil
}

// Close ends the browser and deletes its profile.
func (b *Browser) Close() {
	for i := len(b.stop) - 1; i >= 0; i-- {
		b.stop[i]()
	}
	b.stop = nil
}

// Tab is one window. It is for one goroutine.
type Tab struct {
	// Ctx is what actions of chromedp run with; it ends two minutes after the last Go.
	Ctx   context.Context
	whole context.Context // Ctx without its end
	close []func()

	mu         sync.Mutex
	complaints []string
}

// tabLife bounds everything done on one page.
const tabLife = 2 * time.Minute

// Open opens a tab without cookies. Close it.
func (b *Browser) Open() (*Tab, error) {
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t := &Tab{close: []func(){cancel}}
	if err := chromedp.Do(ctx); err != nil {
		t.Close()
		return nil, err
	}
	if err := chromedp.Listen(ctx, t.hear); err != nil {
		t.Close()
		return nil, err
	}
	t.whole = ctx
	t.renew()
	if _, err := chromedp.Call(t.Ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// renew lets the time of Ctx begin now.
func (t *Tab) renew() {
	var cancel context.CancelFunc
	t.Ctx, cancel = context.WithTimeout(t.whole, tabLife)
	t.close = append(t.close, cancel)
}

// Reuse makes the tab like a new one, without cookies and complaints, which takes
// much less time than opening one. What Zone, Canary, At and WithoutScripts have
// done stays.
func (t *Tab) Reuse() error {
	t.renew()
	if err := chromedp.Do(t.Ctx, chromedp.Navigate("about:blank")); err != nil {
		return err
	}
	if _, err := chromedp.Call(t.Ctx, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
		return err
	}
	t.Forgive()
	return nil
}

// Close closes the tab.
func (t *Tab) Close() {
	for i := len(t.close) - 1; i >= 0; i-- {
		t.close[i]()
	}
	t.close = nil
}

// Complaints returns the complaints of the pages so far.
func (t *Tab) Complaints() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.complaints...)
}

// Forgive forgets the complaints so far: the page was meant to fail.
func (t *Tab) Forgive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.complaints = nil
}

// hear collects complaints. Violations of the policy arrive as log entries.
func (t *Tab) hear(ev any) {
	text := ""
	switch ev := ev.(type) {
	case *log.EventEntryAdded:
		if ev.Entry.Level == "error" || ev.Entry.Source == "security" {
			text = fmt.Sprintf("%s: %s (%s)", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if ev.Type == "error" || ev.Type == "assert" {
			text = "console." + string(ev.Type)
			for _, a := range ev.Args {
				text += " " + string(a.Value) + a.Description
			}
		}
	case *runtime.EventExceptionThrown:
		text = "exception: " + ev.ExceptionDetails.Text
		if ev.ExceptionDetails.Exception != nil {
			text += " " + ev.ExceptionDetails.Exception.Description
		}
	case *page.EventJavascriptDialogOpening:
		text = "dialog: " + ev.Message
		go t.closeDialog() // not here, where the browser's messages are read
	}
	if text == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.complaints = append(t.complaints, text)
}
