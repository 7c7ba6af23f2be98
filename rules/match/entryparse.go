package match

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/entries"
	"sluice/rules/field"
)

// entryParser reads the displayed key of a descriptor back.
type entryParser struct {
	r *rules.Rule
	// facts is the key as far as it is read, without the closing brace.
	facts []byte
	// list holds the entries, with hashMark before a hash. It is empty if the key is one hash.
	list []entries.Entry
	// cut reports that some hash is shortened.
	cut bool
	// prefix reports that the key is a wildcard.
	prefix bool
}

var errTooLongEntries = errors.New("is too long to be written with shortened hashes; use the key that is displayed")

// parse reads a text. open allows a wildcard.
func (p *entryParser) parse(text string, open bool) error {
	d := p.r.Descriptor
	p.facts = appendDomain(nil, d.Domain)
	behind := len(p.facts)
	rest, ok := p.cutDomain(text)
	if !ok {
		return p.formError()
	}
	if hash, ok := strings.CutPrefix(rest, hashWord); ok && isShownHash(hash) {
		p.cut = len(hash) == shownHash
		p.facts = append(append(p.facts, "%h"...), hash...)
		return nil
	}
	parts := strings.Split(rest, "+")
	last := len(parts) - 1
	if len(parts) > len(d.Entries) {
		return fmt.Errorf("must have the form %s; write a + inside a value as %%2B", p.form())
	}
	if end, star := strings.CutSuffix(parts[last], "*"); star && !p.endsInPattern(parts) {
		p.prefix, parts[last] = true, end
	}
	switch {
	case p.prefix && !open:
		return errors.New("must name one bucket; write a literal * as %2A")
	case !p.prefix && len(parts) < len(d.Entries):
		return p.formError()
	}
	for i, part := range parts {
		if err := p.entry(i, part, p.prefix && i == last); err != nil {
			return err
		}
	}
	if !p.prefix && len(p.facts) > maxEntriesFacts {
		if p.cut {
			return errTooLongEntries
		}
		p.facts = boundEntries(p.facts, 0, behind)
	}
	return nil
}

// cutDomain removes the domain and the colon behind it.
func (p *entryParser) cutDomain(text string) (string, bool) {
	domain := p.r.Descriptor.Domain
	for _, shown := range shownPart(appendPart(nil, domain, false), ":") {
		if rest, ok := strings.CutPrefix(text, shown+":"); ok {
			return rest, true
		}
	}
	given, rest, ok := strings.Cut(text, ":")
	return rest, ok && chars.Unescape(given) == domain
}

// endsInPattern reports whether the * at the end of a text belongs to the pattern of the last entry,
// which all its values share.
func (p *entryParser) endsInPattern(parts []string) bool {
	i := len(parts) - 1
	_, value, _ := strings.Cut(parts[i], "=")
	return i == len(p.r.Descriptor.Entries)-1 && p.isShared(i, value)
}

// isShared reports whether a text is the pattern that the values of entry i share.
func (p *entryParser) isShared(i int, text string) bool {
	shared := p.r.SharedPattern(i)
	return shared != "" && (text == shared || slices.Contains(shownPart(appendPart(nil, shared, true), "+"), text))
}

// shownPart returns a part of a key as people see it, with the whole hash and with a shortened one.
func shownPart(part []byte, separators string) []string {
	return []string{
		string(displayPart(nil, string(part), separators)),
		string(displayPart(nil, string(appendShort(nil, part)), separators)),
	}
}

// entry reads one entry. open marks the last value of a wildcard.
func (p *entryParser) entry(i int, part string, open bool) error {
	e := &p.r.Descriptor.Entries[i]
	key, text, ok := strings.Cut(part, "=")
	if !ok || chars.Unescape(key) != e.Key && !slices.Contains(shownPart(appendPart(nil, e.Key, false), "+="), key) {
		return p.formError()
	}
	p.facts = appendEntryKey(p.facts, e.Key, i == 0)
	if shared := p.r.SharedPattern(i); shared != "" {
		if !open && !p.isShared(i, text) {
			return fmt.Errorf("must have the pattern of the rule for %s, because all values that fit it have one bucket", key)
		}
		p.note(e.Key, text)
		if open {
			p.facts = appendPart(p.facts, chars.Unescape(text), true)
		} else {
			p.facts = appendPart(p.facts, shared, true)
		}
		return nil
	}
	if strings.Contains(text, "*") {
		return errors.New("may have a wildcard * only at its end; write a literal * as %2A")
	}
	value := chars.Unescape(text)
	if hash, ok := strings.CutPrefix(text, hashWord); ok && !open && isShownHash(hash) {
		p.cut = p.cut || len(hash) == shownHash
		p.note(e.Key, hashMark+hash)
		return p.fixed(e, append([]byte("%h"), hash...))
	}
	p.note(e.Key, value)
	switch {
	case strings.HasPrefix(value, hashMark):
		return errors.New("contains a byte that no request can contain")
	case open && secretEntry(value):
		return errors.New("cannot have a wildcard inside a value that looks like a credential, because credentials are " +
			"stored as hashes")
	case open:
		p.facts = appendClearPart(p.facts, value)
		return nil
	case e.Pattern != "" && !entries.Fits(e.Pattern, value):
		return fmt.Errorf("must have a value for %s that fits the pattern of the rule", key)
	}
	return p.fixed(e, appendEntryValue(nil, value, ""))
}

// fixed appends a whole value, which must equal the value of the rule if the rule has one.
func (p *entryParser) fixed(e *entries.Element, value []byte) error {
	if own := appendEntryValue(nil, e.Value, ""); e.Value != "" &&
		string(appendShort(nil, own)) != string(appendShort(nil, value)) {
		return fmt.Errorf("must have the value of the rule for %s", chars.Shown(e.Key))
	}
	p.facts = append(p.facts, value...)
	return nil
}

func (p *entryParser) note(key, value string) {
	p.list = append(p.list, entries.Entry{Key: key, Value: value})
}

// form returns the form of the rule's keys.
func (p *entryParser) form() string {
	d := p.r.Descriptor
	facts := appendDomain(nil, d.Domain)
	for i := range d.Entries {
		facts = appendEntryKey(facts, d.Entries[i].Key, i == 0)
		facts = appendEntryValue(facts, d.Entries[i].Value, p.r.SharedPattern(i))
		if d.Entries[i].Value == "" && p.r.SharedPattern(i) == "" {
			facts = append(facts, "<value>"...)
		}
	}
	return displayEntries(string(appendShort(nil, facts)), nil)
}

func (p *entryParser) formError() error { return fmt.Errorf("must have the form %s", p.form()) }

// ResolveOverride normalises and validates an override of rule r. now is the time of the edit; the override must end
// after it. The error is a *field.ValidationError.
func ResolveOverride(o *rules.Override, r *rules.Rule, opt Options, now time.Time) error {
	var ps []field.Problem
	key, err := ReadOverrideKey(r, opt, o.Key)
	if err != nil {
		ps = append(ps, field.Problem{Field: "key", Message: err.Error()})
	} else {
		o.Key, o.Match, o.Prefix = key.Text, key.Match, key.Prefix
	}
	if ps = append(ps, o.Problems(r, now)...); len(ps) > 0 {
		return &field.ValidationError{Fields: ps}
	}
	return nil
}

// ReadOverrideKey reads the key of an override of the rule. It is ParseOverrideKey for an ordinary rule; for a rule
// with a descriptor the form also equals displayed keys:
//
//	shop:path=/pay+user=b    shop:path=/pay+user=acme-*    shop:path=/files/*
func ReadOverrideKey(r *rules.Rule, opt Options, text string) (OverrideKey, error) {
	if r.Descriptor == nil {
		return ParseOverrideKey(r.Scope, opt, text)
	}
	if err := checkOverrideText(text); err != nil {
		return OverrideKey{}, err
	}
	p := entryParser{r: r}
	if err := p.parse(text, true); err != nil {
		return OverrideKey{}, err
	}
	facts := string(appendShort(nil, p.facts))
	k := OverrideKey{Text: displayEntries(facts, nil), Match: facts, Prefix: p.prefix}
	if p.prefix {
		k.Text += "*"
	} else {
		k.Match += "}"
	}
	return k, nil
}

// findEntries is FindBucket for a rule with a descriptor.
func (s *Set) findEntries(c *Compiled, text string, now int64) (Bucket, error) {
	if err := checkOverrideText(text); err != nil {
		return Bucket{}, err
	}
	p := entryParser{r: &c.Rule}
	if err := p.parse(text, false); err != nil {
		return Bucket{}, err
	}
	full := slices.Concat(p.facts, []byte("}"))
	short := appendShort(nil, full)
	b := Bucket{Rule: c, Limit: c.Base(now), Name: displayEntries(string(full), nil),
		Exception: displayEntries(string(short), nil)}
	b.Former = c.formerBase(b.Override, nil, now)
	if o := s.overrides.Of(c.Rule.ID); o != nil {
		a, f := exactOverride(o, short, now)
		if f == nil && o.HasWildcards() { // a wildcard inside a value is not for hashes
			a, f = wildcardOfEntries(o, &c.Rule, p.list, now)
		}
		b.apply(a, f, now)
	}
	if !p.cut {
		b.Key = ofPeriod(limiter.Key(string(full)+c.suffix), b.Limit)
	}
	return b.withCandidate(), nil
}

// KeyForm returns the form of the keys of a rule with a descriptor: shop:path=/pay+user=<value>.
func KeyForm(r *rules.Rule) string {
	p := entryParser{r: r}
	return p.form()
}
