package app

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	// callBlock is a block of commands and the JSON right below it.
	callBlock = regexp.MustCompile("(?s)```sh\n(.*?)```(?:\n\n```json\n(.*?)```)?")
)

// words splits one shell command as far as the documentation uses the shell:
// spaces, quotes, and lines continued with a backslash.
func words(command string) []string {
	var out []string
	var word strings.Builder
	var quote rune
	started := false
	for _, c := range strings.ReplaceAll(command, "\\\n", " ") {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, started = c, true
		case quote == 0 && (c == ' ' || c == '\n'):
			if started {
				out = append(out, word.String())
			}
			word.Reset()
			started = false
		default:
			word.WriteRune(c)
			started = true
		}
	}
	if started {
		out = append(out, word.String())
	}
	return out
}

// request reads a curl command.
func request(t *testing.T, n *node, command string) *http.Request {
	t.Helper()
	method, url, body := http.MethodGet, "", ""
	header := http.Header{}
	args := words(command)[1:]
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; arg {
		case "-s", "-si":
		case "-X":
			i++
			method = args[i]
		case "-d":
			i++
			body = strings.ReplaceAll(args[i], "$ends", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			if method == http.MethodGet {
				method = http.MethodPost
			}
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			if args[i] == "$auth" || value == "Bearer $(cat sluice-data/local-token)" {
				name, value = "Authorization", "Bearer "+n.token
			}
			header.Set(name, value)
		default:
			if url != "" {
				t.Fatalf("curl with %q: this test does not know the option", arg)
			}
			url = strings.Replace(arg, "http://127.0.0.1:8080", n.url, 1)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	return req
}

// moving are the members of answers whose values differ from one run of a page to the next.
var moving = regexp.MustCompile(`^(retry_after_m?s|Retry-After|RateLimit|detail|reservation)$`)

// differs says where an answer lacks what a page shows, "" if it has all of it.
func differs(path string, page, got any) string {
	switch want := page.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		for name, value := range want {
			if other, ok := have[name]; !ok {
				return path + "." + name + " is missing"
			} else if moving.MatchString(name) && reflect.TypeOf(value) == reflect.TypeOf(other) {
				continue
			} else if d := differs(path+"."+name, value, other); d != "" {
				return d
			}
		}
	case []any:
		have, ok := got.([]any)
		if !ok || len(have) != len(want) {
			return fmt.Sprintf("%s is %v", path, got)
		}
		for i := range want {
			if d := differs(fmt.Sprintf("%s[%d]", path, i), want[i], have[i]); d != "" {
				return d
			}
		}
	default:
		if page != got {
			return fmt.Sprintf("%s is %v, the page says %v", path, got, page)
		}
	}
	return ""
}

// Every curl that the documentation shows works on a fresh server, in the order of the page. The quick start shows the
// answer of each, and every member that it shows is in the answer.
func TestDocs_EveryCurlWorks(t *testing.T) {
	t.Parallel()
	const quickStart = "docs/http.md"
	for _, page := range []string{"README.md", quickStart, "docs/alerts.md", "docs/http-checks.md",
		"docs/http-counters.md", "docs/http-figures.md", "docs/http-gateways.md", "docs/http-rules.md"} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile("../../" + page)
			if err != nil {
				t.Fatal(err)
			}
			n, tried := start(t, settings(t)), 0
			for _, block := range callBlock.FindAllStringSubmatch(string(text), -1) {
				for command := range strings.SplitSeq(block[1], "\n\n") {
					if !strings.HasPrefix(command, "curl ") {
						continue
					}
					tried++
					res, err := n.client.Do(request(t, n, command))
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					if err != nil {
						t.Fatal(err)
					}
					if page == quickStart {
						shown(t, command, block[2], res.StatusCode, body)
					} else if res.StatusCode/100 != 2 {
						t.Errorf("%s\nanswered %d", command, res.StatusCode)
					}
				}
			}
			if tried == 0 {
				t.Error("no curl found: has the page changed its form?")
			}
		})
	}
}

// shown fails the test unless an answer has the members that the page shows below the command.
func shown(t *testing.T, command, answer string, status int, body []byte) {
	t.Helper()
	var want, got any
	if err := json.Unmarshal([]byte(answer), &want); err != nil {
		t.Fatalf("%s\nhas no answer on the page: %v", command, err)
	}
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%s\nanswered %s: %v", command, body, err)
	}
	if d := differs("the answer", want, got); d != "" {
		t.Errorf("%s\n%s", command, d)
	}
	refused := strings.Contains(answer, `"/problems/`)
	if refused == (status/100 == 2) {
		t.Errorf("%s\nanswered %d", command, status)
	}
}
