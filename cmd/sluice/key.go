package main

import (
	"bufio"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/limiter/redisstore"
	"sluice/rules/chars"
	"sluice/rules/match"
)

type keyCmd struct {
	Names     []string `arg:"" optional:"" name:"name" help:"Names of buckets as redis-cli prints them (sl:\\x80\\x11...), or readable keys such as {user:42}|17|fw. With --rule, keys as the console shows them, such as user:42. Without names, they are read from standard input, one per line."`
	Rule      int64    `name:"rule" placeholder:"ID" help:"Id of the rule of the keys, to print their names in Redis. Requires --algorithm."`
	Algorithm string   `name:"algorithm" placeholder:"NAME" help:"Algorithm of the rule."`
	KeyPrefix string   `name:"key-prefix" env:"SLUICE_KEY_PREFIX" default:"sl:" placeholder:"TEXT" help:"Prefix of every key in Redis."`
	JSON      bool     `name:"json" help:"Print JSON, one object per line."`
}

// bucketName is one bucket with all its names.
type bucketName struct {
	// Name is the one in Redis, as redis-cli prints it; Readable is what Redis
	// would show if names were not packed.
	Name     string `json:"name"`
	Readable string `json:"readable"`
	// Rule is 0 for the bucket of a direct check, and WindowMS 0 for any other.
	Rule      int64 `json:"rule_id,omitempty"`
	WindowMS  int64 `json:"window_ms,omitempty"`
	Candidate bool  `json:"candidate,omitempty"`
	// Shard is the number of the shard of a hot key, 0 for the first one and for a
	// key that is not sharded.
	Shard      int      `json:"shard,omitempty"`
	Key        string   `json:"key"`
	Algorithms []string `json:"algorithms"`
}

// Run prints each bucket with its names.
func (c *keyCmd) Run(p *process) error {
	suffix := ""
	if c.Rule != 0 || c.Algorithm != "" {
		a, err := limiter.ParseAlgorithm(c.Algorithm)
		switch {
		case err != nil:
			return fmt.Errorf("--algorithm %w", err)
		case c.Rule < 1:
			return fmt.Errorf("--rule must be the id of a rule")
		}
		suffix = "|" + strconv.FormatInt(c.Rule, 10) + "|" + a.Kind()
	}
	for _, name := range c.Names {
		if err := c.explain(p, name, suffix); err != nil {
			return err
		}
	}
	if len(c.Names) > 0 {
		return nil
	}
	lines := bufio.NewScanner(p.in)
	for lines.Scan() {
		if lines.Text() == "" {
			continue
		}
		if err := c.explain(p, lines.Text(), suffix); err != nil {
			fmt.Fprintf(p.errs, "sluice: %s\n", chars.ShownLines(err.Error())) // a list can contain other keys
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading names from standard input: %w", err)
	}
	return nil
}

// explain prints the bucket of one name.
func (c *keyCmd) explain(p *process, text, suffix string) error {
	key, err := c.read(text, suffix)
	if err != nil {
		return err
	}
	b := bucketName{Name: quoteName(redisstore.NameOf(c.KeyPrefix, key)), Readable: c.KeyPrefix + string(key)}
	if mark := shardMark.FindStringSubmatch(string(key)); mark != nil {
		b.Shard, _ = strconv.Atoi(mark[1]) // the pattern has two digits at most
		key = limiter.Key(shardMark.ReplaceAllString(string(key), "}"))
	}
	b.Key = match.DisplayKey(key)
	_, rest, _ := strings.Cut(string(key), "|")
	rule, kind, _ := strings.Cut(rest, "|")
	b.Candidate = strings.HasSuffix(rule, ".c")
	b.Rule, _ = match.RuleID(key) // 0 without a rule
	if b.Rule == 0 {
		b.Key = match.DisplayDirectKey(key)
	}
	if ms, direct := strings.CutPrefix(rule, "w"); direct {
		b.WindowMS, _ = strconv.ParseInt(ms, 10, 64) // the pattern has digits
	}
	for _, a := range limiter.Algorithms() {
		if a.Kind() == kind {
			b.Algorithms = append(b.Algorithms, a.String())
		}
	}
	if c.JSON {
		return printLine(p, b)
	}
	owner := "no rule"
	if b.WindowMS > 0 {
		owner = fmt.Sprintf("direct check (%d ms)", b.WindowMS)
	}
	if b.Rule > 0 {
		owner = fmt.Sprintf("rule %d", b.Rule)
	}
	if b.Candidate {
		owner += " (candidate)"
	}
	if b.Shard > 0 {
		owner += fmt.Sprintf(" (shard %d)", b.Shard)
	}
	_, err = fmt.Fprintln(p.out, strings.Join(
		[]string{b.Name, chars.Shown(b.Readable), owner, chars.Shown(b.Key), strings.Join(b.Algorithms, " or ")}, "  "))
	return err
}

// bucketKey is the form of a key; its second part is the rule, or the window of a direct check.
var bucketKey = regexp.MustCompile(`^\{[^{}|]+\}[^{}|]*\|([1-9][0-9]*(\.c)?|w[1-9][0-9]*)?\|[a-z]{2}$`)

// shardMark matches the mark of a shard of a hot key, at the end of the braces in its name.
var shardMark = regexp.MustCompile(`%s([1-9][0-9]?)\}`)

// shownKey is a key as the console shows it.
var shownKey = regexp.MustCompile(`^[^{}|+\s]+(\+[^{}|+\s]+)*$`)

// read returns the key that a text names.
func (c *keyCmd) read(text, suffix string) (limiter.Key, error) {
	if suffix != "" {
		if !shownKey.MatchString(text) {
			return "", fmt.Errorf("%q is not a key as the console shows it, such as user:42", text)
		}
		first, more, several := strings.Cut(text, "+")
		key := "{" + first + "}"
		if several {
			key += "+" + more
		}
		return limiter.Key(key + suffix), nil
	}
	if bucketKey.MatchString(text) {
		return limiter.Key(text), nil
	}
	for _, name := range []string{text, unquoteName(text)} {
		key, ok := redisstore.KeyOf(c.KeyPrefix, name)
		known := name == c.KeyPrefix+string(key) || name == redisstore.NameOf(c.KeyPrefix, key)
		if ok && known && bucketKey.MatchString(string(key)) {
			return key, nil
		}
	}
	return "", fmt.Errorf("%s is not the name of a bucket with the prefix %s", quoteName(text), c.KeyPrefix)
}

// quoteName writes a name like redis-cli, in quotes if it is not readable.
func quoteName(name string) string {
	var b strings.Builder
	plain := true
	for _, c := range []byte(name) {
		if esc, ok := cliEscapes[c]; ok {
			b.WriteString(esc)
			plain = false
		} else if c < ' ' || c > '~' {
			fmt.Fprintf(&b, `\x%02x`, c)
			plain = false
		} else {
			b.WriteByte(c)
		}
	}
	if plain {
		return name
	}
	return `"` + b.String() + `"`
}

var cliEscapes = map[byte]string{'\\': `\\`, '"': `\"`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\a': `\a`, '\b': `\b`}

// cliEscape is one of quoteName's.
var cliEscape = regexp.MustCompile(`\\(x[0-9a-f]{2}|["\\nrtab])`)

// unquoteName undoes quoteName; the quotes may be missing, as shells take them.
func unquoteName(text string) string {
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	return cliEscape.ReplaceAllStringFunc(text, func(esc string) string {
		if esc[1] == 'x' {
			n, _ := strconv.ParseUint(esc[2:], 16, 8) // the pattern has two digits
			return string([]byte{byte(n)})
		}
		for c, known := range cliEscapes {
			if known == esc {
				return string([]byte{c})
			}
		}
		return esc
	})
}
