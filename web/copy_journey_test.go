package web_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// A copy button answers in a live region. Without a clipboard, as on plain http, and where the browser refuses it, the
// text is selected, and the answer names the keys.
func TestJourney_CopyAnswers(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleViewer)
	const said = `document.querySelector(".copy output").textContent`
	const link = `document.getElementById("key-link").textContent`
	for _, tt := range []struct{ what, prepare, want, got string }{
		{"with a clipboard", `(() => { const write = navigator.clipboard.writeText.bind(navigator.clipboard);
			navigator.clipboard.writeText = (text) => { window.written = text; return write(text); }; return true; })()`,
			"Copied", `window.written`},
		{"without a clipboard", `Object.defineProperty(navigator, "clipboard", { value: undefined }) === navigator`,
			"Press Ctrl+C", `getSelection().toString()`},
		{"with one that refuses", `(() => { navigator.clipboard.writeText = () => Promise.reject(new Error("refused"));
			return true; })()`, "Press Ctrl+C", `getSelection().toString()`},
	} {
		steps(t, tab, chromedp.Navigate(url+"/console/keys?rule=charges-per-user&key=user%3A43"),
			chromedp.WaitVisible("[data-copy]"))
		if !value[bool](t, tab, `document.querySelector(".copy output").textContent === ""`) {
			t.Errorf("%s: it answers before it is asked", tt.what)
		}
		if !value[bool](t, tab, tt.prepare) {
			t.Fatal(tt.what)
		}
		steps(t, tab, chromedp.Click("[data-copy]"))
		until(t, tab, said+` !== ""`)
		if got := value[string](t, tab, said); got != tt.want {
			t.Errorf("%s: it says %q, want %q", tt.what, got, tt.want)
		}
		if got, want := value[string](t, tab, tt.got), value[string](t, tab, link); got != want || want == "" {
			t.Errorf("%s: copied %q, want %q", tt.what, got, want)
		}
	}
}
