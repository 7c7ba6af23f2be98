package inspect

import (
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/field"
	"sluice/rules/host"
	"sluice/rules/match"
	"sluice/rules/redact"
	"sluice/web/view"
)

// pastedRequest is the JSON form of a request, as POST /ratelimit/check takes it.
type pastedRequest struct {
	Method     string            `json:"method"`
	Route      string            `json:"route"`
	Host       string            `json:"host"`
	IP         string            `json:"ip"`
	User       string            `json:"user"`
	APIKey     string            `json:"api_key"`
	Tier       string            `json:"tier"`
	Attributes map[string]string `json:"attributes"`
	Fields     map[string]int64  `json:"fields"`
	Weight     *int64            `json:"weight"`
	// Other members of a check, which do not matter here.
	RequestID json.RawMessage `json:"request_id"`
	UserAgent json.RawMessage `json:"user_agent"`
	TraceID   json.RawMessage `json:"trace_id"`
	Payload   json.RawMessage `json:"payload"`
	TTL       json.RawMessage `json:"ttl_ms"`
	Times     json.RawMessage `json:"times"`
	Least     json.RawMessage `json:"least"`
	OnExpire  json.RawMessage `json:"on_expire"`
	Dialect   json.RawMessage `json:"dialect"`
}

// fromPaste fills in the form from JSON or a curl command. notes say what was left out.
func fromPaste(text string) (form url.Values, notes []string, err error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "{"):
		form, err = fromJSON(text)
		return form, nil, err
	case strings.HasPrefix(text, "curl"):
		req, err := parseCurl(text)
		if err != nil {
			return nil, nil, err
		}
		if strings.HasPrefix(req.url.Path, "/ratelimit/") && strings.HasPrefix(strings.TrimSpace(req.body), "{") {
			form, err = fromJSON(req.body)
			return form, []string{"The command calls sluice itself, so the request in its body is explained."}, err
		}
		form, notes = fromCurl(req)
		return form, notes, nil
	}
	return nil, nil, errors.New("must be a JSON object or a curl command")
}

func fromJSON(text string) (url.Values, error) {
	var in pastedRequest
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(&in)
	if _, after := dec.Token(); err == nil && !errors.Is(after, io.EOF) {
		err = errors.New("more than one value")
	}
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		return nil, errors.New("has a member of the wrong type: " + wrong.Field)
	case err != nil && strings.Contains(err.Error(), "unknown field"):
		return nil, errors.New("has an unknown member; allowed are method, route, host, ip, user, api_key, tier, " +
			"attributes, fields and weight")
	case err != nil:
		return nil, errors.New("must be one JSON object")
	}
	form := url.Values{
		"method": {in.Method}, "route": {in.Route}, "host": {in.Host}, "ip": {in.IP}, "user": {in.User},
		"api_key": {in.APIKey}, "tier": {in.Tier},
		"attributes": {lines(in.Attributes, escapeValue)},
		"fields":     {lines(in.Fields, func(v int64) string { return view.Digits(v) })},
	}
	if in.Weight != nil {
		form.Set("weight", view.Digits(*in.Weight))
	}
	return form, nil
}

// fromCurl reads the facts of a client's request: method, path, and the headers that docs/console.md lists.
func fromCurl(req *curlRequest) (url.Values, []string) {
	form := url.Values{"method": {req.method}, "route": {req.url.EscapedPath()}}
	if form.Get("route") == "" {
		form.Set("route", "/")
	}
	taken := map[string]bool{"content-type": true, "accept": true, "user-agent": true, "content-length": true}
	take := func(fact, header, value string) {
		taken[header] = true
		if value != "" && form.Get(fact) == "" {
			form.Set(fact, value)
		}
	}
	take("host", "host", req.header["host"])
	take("host", "host", req.url.Host)
	take("user", "x-user-id", req.header["x-user-id"])
	take("api_key", "x-api-key", req.header["x-api-key"])
	if scheme, token, _ := strings.Cut(req.header["authorization"], " "); strings.EqualFold(scheme, "bearer") {
		take("api_key", "authorization", strings.TrimSpace(token))
	}
	first, _, _ := strings.Cut(req.header["x-forwarded-for"], ",")
	take("ip", "x-forwarded-for", strings.TrimSpace(first))
	take("ip", "x-real-ip", req.header["x-real-ip"])
	var left []string
	for name := range req.header {
		if !taken[name] && !redact.Secret(name) {
			left = append(left, name)
		}
	}
	var notes []string
	if len(left) > 0 {
		slices.Sort(left)
		notes = append(notes, "Rules do not use these headers: "+strings.Join(left, ", ")+".")
	}
	notes = append(notes, "Your gateway may take user, key and tier from other headers. Check the fields below.")
	return form, notes
}

// escapeValue writes a value of a caller so that it stays on its line, and eachLine reads it back.
func escapeValue(v string) string { return chars.Escape(v, "") }

// lines writes a map as lines of name=value.
func lines[V any](m map[string]V, write func(V) string) string {
	out := make([]string, 0, len(m))
	for name, v := range m {
		out = append(out, chars.Escape(name, "=")+"="+write(v))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// descriptorOf reads the form's fields.
func descriptorOf(form url.Values) (d match.Descriptor, weight int64, errs []field.Problem) {
	wrong := func(member, message string) { errs = append(errs, field.Problem{Field: member, Message: message}) }
	d = match.Descriptor{
		Method: strings.TrimSpace(form.Get("method")), Route: strings.TrimSpace(form.Get("route")), User: form.Get("user"),
		APIKey: form.Get("api_key"), Tier: strings.TrimSpace(form.Get("tier")),
	}
	if d.Route != "" && !strings.HasPrefix(d.Route, "/") {
		wrong("route", "must begin with /")
	}
	if text := strings.TrimSpace(form.Get("host")); text != "" {
		host, err := host.Parse(text)
		if err != nil {
			wrong("host", err.Error())
		}
		d.Host = host
	}
	if text := strings.TrimSpace(form.Get("ip")); text != "" {
		ip, err := netip.ParseAddr(text)
		if err != nil {
			wrong("ip", "must be an IPv4 or IPv6 address")
		}
		d.IP = ip
	}
	weight = 1
	if text := strings.TrimSpace(form.Get("weight")); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > limiter.MaxExact {
			wrong("weight", "must be a whole number, 0 or greater")
		}
		weight = n
	}
	for name, value := range eachLine(form.Get("attributes")) {
		if value == "" {
			wrong("attributes", "must have lines of the form name=value")
			break
		}
		if d.Attributes == nil {
			d.Attributes = map[string]string{}
		}
		d.Attributes[name] = value
	}
	for name, value := range eachLine(form.Get("fields")) {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 {
			wrong("fields", "must have lines of the form name=number")
			break
		}
		if d.Fields == nil {
			d.Fields = map[string]int64{}
		}
		d.Fields[name] = n
	}
	return d, weight, errs
}

// eachLine yields name and value of each line that is not empty, with %XX decoded.
func eachLine(text string) func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			if name = strings.TrimSpace(name); name == "" && value == "" {
				continue
			}
			if !yield(chars.Unescape(name), chars.Unescape(strings.TrimSpace(value))) {
				return
			}
		}
	}
}
