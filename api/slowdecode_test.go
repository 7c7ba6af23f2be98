package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"sluice/api/decide"
	"sluice/limiter"
)

// slowCheck is a second reading of a check, on top of encoding/json, against
// which the fast decoder is held. It gives the members by name with their
// values (string, int64, map[string]string or map[string]int64) and the fields
// whose value has a wrong type or range; the error means "not readable".
func slowCheck(data []byte) (values map[string]any, wrong map[string]bool, err error) {
	if err := slowStrict(data); err != nil {
		return nil, nil, err
	}
	return slowMembers(data, false)
}

// slowMembers reads the members of a check, or of an element of limits.
func slowMembers(data []byte, element bool) (values map[string]any, wrong map[string]bool, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return nil, nil, errors.New("not an object")
	}
	values, wrong = map[string]any{}, map[string]bool{}
	for name, raw := range members {
		var ok bool
		if inner := slices.Index(checkMembers[:], name); element != (name == "name" || inner <= inFailMode) &&
			(element || name == "name") {
			return nil, nil, errors.New("unknown member " + name)
		}
		switch name {
		case "limit", "window_ms", "burst", "buckets", "weight":
			values[name], ok = slowInteger(raw, 0)
		case "anchor_ms":
			values[name], ok = slowInteger(raw, -limiter.MaxWindow)
		case "attributes", "fields":
			values[name], ok = slowPairs(name, raw)
		case "limits":
			if values[name], ok, err = slowLimits(raw); err != nil {
				return nil, nil, err
			}
		case "request_id":
			values[name], ok = slowString(raw, maxRequestID)
		case "name", "key", "algorithm", "align", "fail_mode", "method", "route", "host", "ip", "user", "api_key", "tier":
			values[name], ok = slowString(raw, maxText)
		default:
			return nil, nil, errors.New("unknown member " + name)
		}
		if !ok {
			wrong[name] = true
		}
	}
	return values, wrong, nil
}

// slowLimits reads the elements of limits. Their values are not compared.
func slowLimits(raw json.RawMessage) (_ any, ok bool, err error) {
	var elements []json.RawMessage
	if t := bytes.TrimSpace(raw); t[0] != '[' || json.Unmarshal(raw, &elements) != nil {
		return nil, false, nil
	}
	ok = len(elements) > 0 && len(elements) <= decide.MaxDirect
	for _, e := range elements {
		if bytes.TrimSpace(e)[0] != '{' {
			ok = false
			continue
		}
		_, wrong, err := slowMembers(e, true)
		if err != nil {
			return nil, false, err
		}
		ok = ok && len(wrong) == 0
	}
	return nil, ok, nil
}

var integerText = regexp.MustCompile(`^-?[0-9]+$`)

func slowInteger(raw json.RawMessage, least int64) (any, bool) {
	text := string(bytes.TrimSpace(raw))
	if !integerText.MatchString(text) {
		return nil, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= least && n <= limiter.MaxExact
}

func slowString(raw json.RawMessage, most int) (any, bool) {
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '"' {
		return nil, false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil && len(s) <= most
}

func slowPairs(name string, raw json.RawMessage) (any, bool) {
	var members map[string]json.RawMessage
	if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' || json.Unmarshal(raw, &members) != nil {
		return nil, false
	}
	ok := len(members) <= maxPairs
	texts, numbers := map[string]string{}, map[string]int64{}
	for k, v := range members {
		ok = ok && k != "" && len(k) <= maxText
		if name == "fields" {
			n, good := slowInteger(v, 0)
			numbers[k], _ = n.(int64)
			ok = ok && good
		} else {
			s, good := slowString(v, maxText)
			texts[k], _ = s.(string)
			ok = ok && good
		}
	}
	if name == "fields" {
		return numbers, ok
	}
	return texts, ok
}

// slowStrict checks what encoding/json lets pass: encoding, half surrogates,
// repeated names, depth, trailing data.
func slowStrict(data []byte) error {
	if !utf8.Valid(data) || !json.Valid(data) {
		return errors.New("not JSON in UTF-8")
	}
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		if data[i+1] != 'u' {
			i++
			continue
		}
		high, _ := strconv.ParseUint(string(data[i+2:i+6]), 16, 16)
		i += 5
		if high < 0xd800 || high > 0xdfff {
			continue
		}
		if high > 0xdbff || i+7 > len(data) || data[i+1] != '\\' || data[i+2] != 'u' {
			return errors.New("incomplete surrogate")
		}
		low, _ := strconv.ParseUint(string(data[i+3:i+7]), 16, 16)
		if low < 0xdc00 || low > 0xdfff {
			return errors.New("incomplete surrogate")
		}
		i += 6
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := slowValue(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("trailing data")
	}
	return nil
}

func slowValue(d *json.Decoder, depth int) error {
	if depth > maxDepth {
		return errors.New("too deep")
	}
	tok, err := d.Token()
	if err != nil {
		return err
	}
	switch tok {
	case json.Delim('['):
		for d.More() {
			if err := slowValue(d, depth+1); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return err
			}
			if seen[name.(string)] {
				return errors.New("repeated member")
			}
			seen[name.(string)] = true
			if err := slowValue(d, depth+1); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}
