package inspect

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// curlRequest is the request of a curl command, as far as rules use it.
type curlRequest struct {
	method string
	url    *url.URL
	// header has the values by lower-case name, the last one of each.
	header map[string]string
	body   string
}

// Options of curl. Options that do not matter here are listed too, so that their values are not taken for the URL.
const (
	curlFlags  = "0123456aBfFgGiIjJkKlLMnNOpqRsSvZ#"
	curlValues = "AbcCdDeEFhHKmoPQrtTuUwxXyYz"
)

var curlLong = map[string]bool{ // whether a value follows
	"request": true, "header": true, "data": true, "data-raw": true, "data-binary": true, "data-ascii": true,
	"data-urlencode": true, "json": true,
	"url": true, "user": true, "user-agent": true, "referer": true, "cookie": true, "cookie-jar": true, "output": true,
	"form": true, "max-time": true,
	"connect-timeout": true, "proxy": true, "cacert": true, "cert": true, "key": true, "resolve": true, "retry": true,
	"write-out": true, "range": true,
	"oauth2-bearer": true, "upload-file": true, "interface": true, "limit-rate": true, "connect-to": true,
	"unix-socket": true,
	"get":         false, "head": false, "compressed": false, "location": false, "insecure": false, "silent": false,
	"show-error": false, "include": false,
	"verbose": false, "fail": false, "http1.1": false, "http1.0": false, "http2": false, "http2-prior-knowledge": false,
	"http3": false, "no-buffer": false,
	"globoff": false, "ipv4": false, "ipv6": false, "fail-with-body": false, "no-progress-meter": false,
	"progress-bar": false, "path-as-is": false,
}

var curlShort = map[byte]string{
	'X': "request", 'H': "header", 'd': "data", 'u': "user", 'I': "head", 'G': "get", 'A': "user-agent", 'F': "form",
	'T': "upload-file",
}

// parseCurl reads a curl command as typed into a shell or copied from a browser. Nothing is executed, and no file is
// read. The error does not repeat values.
func parseCurl(command string) (*curlRequest, error) {
	words, err := shellWords(command)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 || words[0] != "curl" {
		return nil, errors.New("must start with curl")
	}
	p := curlParser{req: curlRequest{header: map[string]string{}}}
	for i := 1; i < len(words); i++ {
		used, err := p.word(words[i], words[i+1:])
		if err != nil {
			return nil, err
		}
		i += used
	}
	return p.done()
}

type curlParser struct {
	req        curlRequest
	address    string
	data       []string
	get, head  bool
	put        bool
	hasData    bool
	onlyValues bool // after --
}

// word processes one word and returns how many of the following words it used.
func (p *curlParser) word(w string, rest []string) (used int, err error) {
	switch {
	case p.onlyValues || w == "-" || !strings.HasPrefix(w, "-"):
		return 0, p.to(w)
	case w == "--":
		p.onlyValues = true
		return 0, nil
	case strings.HasPrefix(w, "--"):
		return p.long(w[2:], rest)
	}
	for j := 1; j < len(w); j++ {
		name := curlShort[w[j]]
		if strings.IndexByte(curlValues, w[j]) < 0 {
			if strings.IndexByte(curlFlags, w[j]) < 0 {
				return 0, fmt.Errorf("has the unknown option -%c", w[j])
			}
			if err := p.option(name, ""); err != nil {
				return 0, err
			}
			continue
		}
		if j+1 < len(w) {
			return 0, p.option(name, w[j+1:])
		}
		if len(rest) == 0 {
			return 0, fmt.Errorf("ends after -%c, which needs a value", w[j])
		}
		return 1, p.option(name, rest[0])
	}
	return 0, nil
}

func (p *curlParser) long(name string, rest []string) (used int, err error) {
	name, value, joined := strings.Cut(name, "=")
	wants, known := curlLong[name]
	switch {
	case !known:
		return 0, errors.New("has an unknown option; remove options that do not change the request")
	case !wants:
		return 0, p.option(name, "")
	case joined:
		return 0, p.option(name, value)
	case len(rest) == 0:
		return 0, fmt.Errorf("ends after --%s, which needs a value", name)
	}
	return 1, p.option(name, rest[0])
}

// option processes one option. Options that do not affect the request are ignored.
func (p *curlParser) option(name, value string) error {
	switch name {
	case "request":
		p.req.method = value
	case "header":
		name, v, _ := strings.Cut(value, ":")
		p.req.header[strings.ToLower(strings.TrimSpace(name))] = strings.TrimSpace(v)
	case "data", "data-raw", "data-binary", "data-ascii", "data-urlencode", "json":
		p.data, p.hasData = append(p.data, value), true
	case "form":
		p.hasData = true
	case "upload-file":
		p.put = true
	case "url":
		return p.to(value)
	case "oauth2-bearer":
		p.req.header["authorization"] = "Bearer " + value
	case "get":
		p.get = true
	case "head":
		p.head = true
	}
	return nil
}

func (p *curlParser) to(address string) error {
	if p.address != "" {
		return errors.New("has more than one URL")
	}
	p.address = address
	return nil
}

func (p *curlParser) done() (*curlRequest, error) {
	if p.address == "" {
		return nil, errors.New("has no URL")
	}
	address := p.address
	if !strings.Contains(address, "://") && !strings.HasPrefix(address, "/") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("has an invalid URL")
	}
	p.req.url, p.req.body = u, strings.Join(p.data, "&")
	switch {
	case p.req.method != "":
		p.req.method = strings.ToUpper(p.req.method)
	case p.head:
		p.req.method = "HEAD"
	case p.put:
		p.req.method = "PUT"
	case p.hasData && !p.get:
		p.req.method = "POST"
	default:
		p.req.method = "GET"
	}
	return &p.req, nil
}

// shellWords splits a command as a POSIX shell would, without expanding anything. $'…' is read too, because browsers
// copy requests that way. The small libraries for shell words (go-shellwords, shlex) read neither that nor a line that
// continues after a backslash, and a parser of a whole shell has a hundred times the code.
func shellWords(s string) ([]string, error) {
	var words []string
	var word strings.Builder
	in := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] == '\n' || s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n' {
				if s[i] == '\r' {
					i++
				}
				continue
			}
			word.WriteByte(s[i])
			in = true
		case c == '\'' || c == '"' || c == '$' && i+1 < len(s) && s[i+1] == '\'':
			n, err := quoted(s[i:], &word)
			if err != nil {
				return nil, err
			}
			i, in = i+n-1, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case strings.IndexByte("|;&<>`", c) >= 0:
			return nil, errors.New("must be one command without pipes or redirections; put the URL in quotes")
		default:
			word.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// quoted reads a quoted string at the start of s and returns its length.
func quoted(s string, to *strings.Builder) (int, error) {
	i, end := 1, s[0]
	if s[0] == '$' {
		i, end = 2, '\''
	}
	for ; i < len(s); i++ {
		switch {
		case s[i] == end:
			return i + 1, nil
		case s[i] == '\\' && i+1 < len(s) && s[0] == '$':
			c, _, rest, err := strconv.UnquoteChar(s[i:], '\'')
			if err != nil { // an escape that Go does not have, such as \"
				c, rest = rune(s[i+1]), s[i+2:]
			}
			to.WriteRune(c)
			i = len(s) - len(rest) - 1
		case s[i] == '\\' && i+1 < len(s) && s[0] == '"' && strings.IndexByte("\"\\$`\n", s[i+1]) >= 0:
			if i++; s[i] != '\n' {
				to.WriteByte(s[i])
			}
		default:
			to.WriteByte(s[i])
		}
	}
	return 0, errors.New("has an unclosed quote")
}
