package history

import (
	"encoding/json"
	"hash/maphash"
	"strconv"
	"strings"
)

var hashSeed = maphash.MakeSeed()

// hashOf is a hash of fields and their values, in any order.
func hashOf(fields map[string]string) uint64 {
	hash := uint64(len(fields))
	for field, value := range fields {
		hash += maphash.Comparable(hashSeed, [2]uint64{maphash.String(hashSeed, field), maphash.String(hashSeed, value)})
	}
	return hash
}

// summedTen is what the nodes posted of ten seconds. It is not changed.
type summedTen struct {
	hash  uint64 // of the posts
	rules map[string]Figures
}

// rulesPosted reads the figures of rules. Anything else counts as nothing.
func rulesPosted(text string) map[string]allFigures {
	of, rest := cutRules(text)
	if of == nil || rest != "" {
		of = nil
		_ = json.Unmarshal([]byte(text), &of)
	}
	return of
}

// cutRules reads the figures of rules at the beginning of a text, as jsonOf writes them, and returns what follows. If
// the text begins with anything else, even with other JSON, it returns nil and the text, for encoding/json to read.
func cutRules(text string) (of map[string]allFigures, rest string) {
	s, ok := strings.CutPrefix(text, "{")
	if !ok {
		return nil, text
	}
	of = make(map[string]allFigures, strings.Count(s, "["))
	if s, ok = strings.CutPrefix(s, "}"); ok {
		return of, s
	}
	for {
		var rule string
		var p allFigures
		if rule, p, s, ok = cutRule(s); !ok {
			return nil, text
		}
		of[rule] = p
		if s == "" || s[0] != ',' {
			break
		}
		s = s[1:]
	}
	if s, ok = strings.CutPrefix(s, "}"); !ok {
		return nil, text
	}
	return of, s
}

// cutRule reads a name and its figures.
func cutRule(s string) (rule string, p allFigures, rest string, ok bool) {
	if s == "" || s[0] != '"' {
		return "", p, s, false
	}
	name, s, ok := strings.Cut(s[1:], `":[`)
	if !ok || strings.ContainsAny(name, `\"`) {
		return "", p, s, false
	}
	numbers, s, ok := strings.Cut(s, "]")
	if !ok {
		return "", p, s, false
	}
	p, ok = cutNumbers(numbers)
	return name, p, s, ok
}

// cutNumbers reads figures with commas between them.
func cutNumbers(s string) (p allFigures, ok bool) {
	for i := range p {
		number, more, further := strings.Cut(s, ",")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || further != (i < len(p)-1) {
			return allFigures{}, false
		}
		p[i], s = n, more
	}
	return p, true
}

// figuresPosted reads the figures of all requests. Anything else counts as nothing, because figures on a screen are not
// worth an error.
func figuresPosted(text string) Figures {
	p, _ := cutNumbers(strings.Trim(text, "[]"))
	return p.figures()
}
