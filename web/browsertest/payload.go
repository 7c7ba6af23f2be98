package browsertest

import (
	"fmt"
	"strings"
)

// Payload is text that would call canary if a page did not escape it.
type Payload struct {
	// Class is the class of the attack.
	Class string
	// Text holds the number of the payload, as in canary(17).
	Text string
}

// Payloads returns over 200 texts in several classes. The first class combines exits from the place of a text with ways
// to run code. The next classes need no exit, because the text is already in an attribute, an address, a script or a
// template. The last class disguises payloads, against code that searches for known attacks instead of escaping.
func Payloads() []Payload {
	var all []Payload
	add := func(class, text string) {
		all = append(all, Payload{class, strings.ReplaceAll(text, "RUN", fmt.Sprintf("canary(%d)", len(all)))})
	}
	for _, out := range exits {
		for _, run := range vectors {
			add("markup", out+run)
		}
	}
	for _, quote := range []string{`"`, `'`, ``} {
		for _, on := range handlers {
			add("attribute", quote+" "+on+"="+quote+"RUN"+quote+" x="+quote)
		}
	}
	for _, text := range addresses {
		add("address", text)
	}
	for _, text := range scripts {
		add("script", text)
	}
	for _, text := range templates {
		add("template", text)
	}
	for _, dress := range disguises {
		add("disguise", dress(`<img src=x onerror=RUN>`))
		add("disguise", dress(`"><script>RUN</script>`))
	}
	return all
}

// exits end the elements that may contain a text.
var exits = []string{
	"", `">`, `'>`, "-->", "</title>", "</textarea>", "</option></select>", "</script>", "</style>", "</template>",
	"</time></td></tr></table>", "]]>",
}

// vectors run code as soon as they are parsed as markup.
var vectors = []string{
	"<script>RUN</script>",
	"<script src=data:text/javascript,RUN></script>",
	"<img src=x onerror=RUN>",
	"<svg onload=RUN>",
	"<svg><animate onbegin=RUN attributeName=x dur=1s>",
	"<details open ontoggle=RUN>",
	"<input autofocus onfocus=RUN>",
	`<iframe srcdoc="<script>parent.RUN</script>">`,
	"<video><source onerror=RUN></video>",
	"<math><mtext></math><img src=x onerror=RUN>",
	`<div hx-on:htmx:load="RUN" hx-on::load="RUN" hx-get="/console" hx-trigger="load" hx-vals="js:RUN">`,
	`<meta http-equiv=refresh content="0;url=javascript:RUN">`,
}

var handlers = []string{"onfocus", "autofocus onfocus", "onpointerenter", "onanimationstart", "ontoggle", "onload",
	"onerror", "hx-on:load", "hx-on::after:init"}

// addresses run when a link or form leads to them.
var addresses = []string{
	"javascript:RUN", "JaVaScRiPt:RUN", " javascript:RUN", "java\tscript:RUN", "java\nscript:RUN", "\x01javascript:RUN",
	"javascript://%0aRUN",
	"vbscript:RUN", "data:text/html,<script>RUN</script>",
	"data:text/html;base64,PHNjcmlwdD5wYXJlbnQuY2FuYXJ5KDApPC9zY3JpcHQ+",
	"//evil.invalid/RUN", `\\evil.invalid\RUN`, "https:evil.invalid/RUN", "/console\r\nX-Injected: RUN",
}

// scripts run where a text is pasted into a program or a JSON document.
var scripts = []string{
	`";RUN;//`, `';RUN;//`, "`;RUN;//", "${RUN}", `\";RUN;//`, `\';RUN;//`, `"-RUN-"`, `'-RUN-'`, "*/RUN/*",
	"\u2028RUN\u2029", `</script><script>RUN//`,
	`<!--<script>`, `{"__proto__":{"x":"RUN"}}`,
}

// templates run where a text is taken for a template or an expression.
var templates = []string{
	"{{RUN}}", "{{constructor.constructor('RUN')()}}", "{{.}}{{html RUN}}", "<%= RUN %>", "#{RUN}", "[[RUN]]", "{%RUN%}",
	"*{RUN}", "@{RUN}", "%{RUN}",
}

// disguises change the appearance of a payload.
var disguises = []func(string) string{
	strings.ToUpper,
	func(s string) string { return strings.ReplaceAll(s, " ", "/") },
	func(s string) string { return strings.ReplaceAll(s, " ", "\n") },
	func(s string) string { return strings.ReplaceAll(s, "<", "<<") },
	func(s string) string { return strings.ReplaceAll(s, "<s", "<s\x00") },
	func(s string) string { return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(s) },
	func(s string) string { return strings.NewReplacer("<", "&#60;", ">", "&#x3e;").Replace(s) },
	func(s string) string { return strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22").Replace(s) },
	func(s string) string { return strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(s) },
	func(s string) string { return strings.NewReplacer("<", "\uff1c", ">", "\uff1e").Replace(s) },
	func(s string) string { return strings.NewReplacer("<", "+ADw-", ">", "+AD4-").Replace(s) },
	func(s string) string { return strings.NewReplacer("<", "\xc0\xbc", ">", "\xc0\xbe").Replace(s) },
	func(s string) string { return "\u202e" + s },
	func(s string) string { return strings.ReplaceAll(s, "script", "scr<script>ipt") },
}
