package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// Zone puts the viewer in a time zone, as in "Asia/Tokyo", from the next page on.
func (t *Tab) Zone(name string) error {
	_, err := chromedp.Call(t.Ctx, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: name})
	return err
}

// At lets the clock of every page from now on stand at a time.
func (t *Tab) At(at time.Time) error {
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf("Date.now = () => %d;", at.UnixMilli())}
	_, err := chromedp.Call(t.Ctx, page.AddScriptToEvaluateOnNewDocument, script)
	return err
}

// WithoutScripts lets no page run a script from now on.
func (t *Tab) WithoutScripts() error {
	_, err := chromedp.Call(t.Ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
}

// Canary defines the function canary on every page from now on. A call of canary is a complaint; an opened dialog is
// one too. With unguarded, pages are shown as if they had no Content-Security-Policy, so that only escaping protects
// them.
func (t *Tab) Canary(unguarded bool) error {
	script := page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `window.canary = (n) => console.error("the canary was called by payload", n);`}
	if _, err := chromedp.Call(t.Ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		return err
	}
	_, err := chromedp.Call(t.Ctx, page.SetBypassCSP, page.SetBypassCSPParams{Enabled: unguarded})
	return err
}

// Go shows a page and waits until it has loaded.
func (t *Tab) Go(url string) error {
	t.renew()
	return chromedp.Do(t.Ctx, chromedp.Navigate(url), chromedp.WaitReady("body"))
}

// Send posts a form to a path of the site on show and waits for the answer. Pages
// allow it, because the form goes to their own site.
func (t *Tab) Send(path string, form map[string][]string) error {
	fields, err := json.Marshal(form)
	if err != nil {
		return err
	}
	script := fmt.Sprintf(`{
		const f = document.createElement("form");
		f.method = "post"; f.action = %q; f.hidden = true;
		for (const [name, values] of Object.entries(%s)) for (const value of values) {
			const e = document.createElement("textarea");
			e.name = name; e.value = value; f.append(e);
		}
		document.body.append(f);
		HTMLFormElement.prototype.submit.call(f);
	}`, path, fields)
	return t.Leave(Script(script))
}

// Script runs a script whose value nobody needs.
func Script(script string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[bool]("{"+script+"}; true")(ctx, target)
		return chromedp.Void{}, err
	}
}

// Leave runs a step that leads to another page and waits until the new page has loaded. The event that RunResponse
// waits for may belong to the previous page. Therefore Leave also evaluates a script on the page: the previous page is
// marked, and its script never finishes.
func (t *Tab) Leave(step chromedp.Action[chromedp.Void]) error {
	if _, err := chromedp.Run(t.Ctx, Script("window.isLeft = true")); err != nil {
		return err
	}
	if _, err := chromedp.RunResponse(t.Ctx, step); err != nil {
		return err
	}
	const loaded = `new Promise(done => {
		if (window.isLeft) return;
		document.readyState === "complete" ? done(true) : addEventListener("load", () => done(true));
	})`
	for {
		_, err := chromedp.Run(t.Ctx, chromedp.Evaluate[bool](loaded, chromedp.EvalAwaitPromise))
		if err == nil || t.Ctx.Err() != nil || !strings.Contains(err.Error(), "navigated") {
			return err
		}
	}
}

// Status is the status of the page on show.
func (t *Tab) Status() (int, error) {
	return chromedp.Run(t.Ctx, chromedp.Evaluate[int](`performance.getEntriesByType("navigation")[0].responseStatus`))
}

// Weight is the number of transferred bytes of the page on show and of everything that it has loaded so far. Each
// response counts 300 bytes of headers, as in browsers. An asset counts whether or not an earlier page has loaded it.
func (t *Tab) Weight() (int, error) {
	return chromedp.Run(t.Ctx, chromedp.Evaluate[int](
		`[...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
		.reduce((sum, e) => sum + e.encodedBodySize + 300, 0)`))
}

// Stray returns the complaints, except complaints about the status of the page on show: a page that reports an error
// has such a status on purpose.
func (t *Tab) Stray() []string {
	status, err := t.Status()
	if err != nil {
		return []string{err.Error()}
	}
	expected := fmt.Sprintf("responded with a status of %d", status)
	var out []string
	for _, c := range t.Complaints() {
		if status < 400 || !strings.HasPrefix(c, "network: ") || !strings.Contains(c, expected) {
			out = append(out, c)
		}
	}
	return out
}

// closeDialog answers a dialog, without which the page would stand still.
func (t *Tab) closeDialog() {
	_, _ = chromedp.Call(t.Ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true})
}
