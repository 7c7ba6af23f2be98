package match

import (
	"errors"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules/chars"
	"sluice/rules/host"
	"sluice/rules/override"
	"sluice/rules/scope"
)

// Bucket is one bucket of a rule, found by its name.
type Bucket struct {
	Rule *Compiled
	// Name finds the bucket again; see BucketName.
	Name string
	// Exception is the key of an override for this bucket alone, "" if the rule has only one
	// bucket.
	Exception string
	// Key is the bucket's key. It is "" if the name contains a shortened hash: that is enough for
	// an override, but not to find the bucket.
	Key limiter.Key
	// Limit is the current limit of requests without a tier. Override is the override that
	// applies, if any.
	Limit    limiter.Limit
	Override override.Applied
	// Former is as in Match, of requests without a tier.
	Former *FormerLimit
	// Candidate is the bucket of the rule's candidate, "" if the rule has none now.
	Candidate      limiter.Key
	CandidateLimit limiter.Limit
}

// BucketName returns the name by which FindBucket finds a bucket: the name of DisplayKey, with every hash in full.
func BucketName(key limiter.Key) string {
	facts, _, _ := strings.Cut(string(key), "|")
	if isEntries(facts) {
		return displayEntries(facts, nil)
	}
	return displayFacts(facts, strings.Contains(facts, "+"), nil)
}

// FindBucket finds a bucket of a rule of this set by its name: the result of BucketName, a
// displayed key, or the key of an override. Credentials may be raw. Errors say what is wrong
// without repeating values.
func (s *Set) FindBucket(c *Compiled, text string, now time.Time) (Bucket, error) {
	at := now.UnixMilli()
	if c.Rule.Descriptor != nil {
		return s.findEntries(c, text, at)
	}
	b := Bucket{Rule: c, Limit: c.Base(at)}
	b.Former = c.formerBase(b.Override, nil, at)
	if len(c.facts) == 0 {
		if text != "" && text != scope.Global {
			return Bucket{}, errors.New("must be global, because the rule has one bucket for all requests")
		}
		b.Name, b.Key = scope.Global, ofPeriod(c.globalKey, b.Limit)
		return b.withCandidate(), nil
	}
	if err := checkOverrideText(text); err != nil {
		return Bucket{}, err
	}
	if strings.Contains(text, "*") {
		return Bucket{}, errors.New("must name one bucket; write a literal * as %2A")
	}
	p := bucketParser{overrideParser: overrideParser{facts: c.facts, set: Set{opt: s.opt}, single: true}}
	p.d.stored = true
	full, short, err := p.parse(text)
	if err != nil {
		return Bucket{}, err
	}
	several := len(c.facts) > 1
	b.Name = displayFacts(string(full), several, nil)
	b.Exception = displayFacts(string(short), several, nil)
	if o := s.overrides.Of(c.Rule.ID); o != nil {
		if p.cut { // wildcards are not for hashes
			k := s.keyer(&Descriptor{IP: p.d.IP})
			b.applied(o, &k, short, at)
		} else {
			k := s.keyer(&p.d)
			b.applied(o, &k, full, at)
		}
	}
	if !p.cut {
		b.Key = ofPeriod(limiter.Key(string(full)+c.suffix), b.Limit)
	}
	return b.withCandidate(), nil
}

func (b *Bucket) applied(o *override.OfRule, k *keyer, facts []byte, now int64) {
	a, f := k.find(o, b.Rule, facts, now)
	b.apply(a, f, now)
}

// apply applies the override a with the effect f, which is nil for none.
func (b *Bucket) apply(a override.Applied, f *override.Effect, now int64) {
	if f == nil {
		return
	}
	b.Override, b.Former = a, b.Rule.formerBase(a, f, now)
	if !a.Unlimited {
		b.Limit = b.Rule.overridden(b.Rule.Base(now), f, now)
	}
}

func (b Bucket) withCandidate() Bucket {
	if b.Key == "" {
		return b
	}
	m := Match{Rule: b.Rule, Key: b.Key, Limit: b.Limit, Override: b.Override}
	if key, l, ok := m.Candidate(); ok {
		b.Candidate, b.CandidateLimit = key, l
	}
	return b
}

// bucketParser parses the facts of one bucket into its key and a descriptor.
type bucketParser struct {
	overrideParser
	d Descriptor
	// cut reports that some hash is shortened.
	cut bool
}

// parse returns the facts of the bucket's key, and the same with shortened hashes.
func (p *bucketParser) parse(text string) (full, short []byte, err error) {
	values, err := p.split(text)
	if err != nil {
		return nil, nil, err
	}
	full = []byte("{")
	for i, v := range values {
		if i > 0 {
			full = append(full, '+')
		}
		if full, err = p.appendWhole(full, &p.facts[i], v); err != nil {
			return nil, nil, err
		}
		if i == 0 {
			full = append(full, '}')
		}
	}
	return full, appendShort(nil, full), nil
}

// appendWhole appends label and value of one fact in the form of the bucket's key.
func (p *bucketParser) appendWhole(dst []byte, f *scope.Fact, text string) ([]byte, error) {
	hash, hashed := strings.CutPrefix(text, hashWord)
	switch {
	case hashed && isHashText(hash, hashLen):
		p.note(f, hashMark+hash)
		return append(append(append(dst, f.Label...), "%h"...), hash...), nil
	case hashed && isHashText(hash, shownHash):
		p.cut = true
		return p.appendValue(dst, f, text, false)
	}
	if _, err := p.appendValue(nil, f, text, false); err != nil {
		return nil, err
	}
	v := chars.Unescape(text)
	if strings.HasPrefix(v, hashMark) {
		return nil, errors.New("contains a byte that no request can contain")
	}
	p.note(f, v)
	k := p.set.keyer(&p.d)
	return k.encode(dst, f), nil
}

// note stores a value in the descriptor.
func (p *bucketParser) note(f *scope.Fact, v string) {
	switch f.Kind {
	case scope.User:
		p.d.User = v
	case scope.APIKey:
		p.d.APIKey = v
	case scope.Tier:
		p.d.Tier = v
	case scope.Route:
		if !strings.HasPrefix(v, hashMark) { // a route is hashed only if it looks like a credential
			p.d.Route = v
		}
	case scope.Method:
		p.d.Method = v
	case scope.Host:
		p.d.Host, _ = host.Parse(v) // appendValue has read it already
	case scope.IP:
		p.d.IP, _, _ = p.address(v) // appendValue has read it already
	case scope.Attribute:
		if p.d.Attributes == nil {
			p.d.Attributes = map[string]string{}
		}
		p.d.Attributes[f.Attribute] = v
	}
}
