package app

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
)

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

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
			body = args[i]
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

// Every curl that the documentation shows works on a fresh server, in the order
// of the page.
func TestDocs_EveryCurlWorks(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"README.md", "docs/http.md"} {
		t.Run(page, func(t *testing.T) {
			text, err := os.ReadFile("../../" + page)
			if err != nil {
				t.Fatal(err)
			}
			n, tried := start(t, settings(t)), 0
			for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
				for command := range strings.SplitSeq(block[1], "\n\n") {
					if !strings.HasPrefix(command, "curl ") {
						continue
					}
					tried++
					res, err := n.client.Do(request(t, n, command))
					if err != nil {
						t.Fatal(err)
					}
					res.Body.Close()
					if res.StatusCode/100 != 2 {
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
