package rulecopy

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"sluice/internal/access"
	"sluice/rules"
)

// Copy is what a node needs to decide without the rules database.
type Copy struct {
	// At is when the database last confirmed the rules, in whole milliseconds.
	At time.Time
	// Version is that of the rules as a whole, 0 or greater.
	Version int64
	// Stamp tells two states of one Version apart; empty in a copy of an older build.
	Stamp string
	// Rules are the active rules. They are not validated here: compiling them
	// does that, as it does for rules from the database.
	Rules []rules.Rule
	// Pools are those that the rules may name.
	Pools []rules.Pool
	// Profiles are all profiles.
	Profiles []rules.Profile
	// Tokens are all tokens, revoked and expired ones too, because those keep
	// the open mode off.
	Tokens []access.Token
}

// content is the JSON inside a file.
type content struct {
	Version  int64           `json:"version"`
	Stamp    string          `json:"stamp"` // not in format 1
	Rules    []rules.Rule    `json:"rules"`
	Pools    []rules.Pool    `json:"pools"`
	Profiles []rules.Profile `json:"profiles"` // not before format 3
	Tokens   []token         `json:"tokens"`
	// Formers are those of the rules, by id; not before format 6.
	Formers map[int64]*rules.Former `json:"formers"`
}

// token is access.Token with its hash, which that type never prints by itself.
type token struct {
	ID        int64      `json:"id"`
	Name      string     `json:"name"`
	Hash      string     `json:"hash"` // 64 hexadecimal digits
	Scopes    string     `json:"scopes"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

// ordinary is a rule without a descriptor. It leaves out the members that belong to one, because
// builds before format 4 refuse a member that they do not know.
type ordinary struct {
	*rules.Rule
	Descriptor     *struct{} `json:"descriptor,omitempty"`
	Addend         *struct{} `json:"addend,omitempty"`
	Unlimited      *struct{} `json:"unlimited,omitempty"`
	Quota          *struct{} `json:"quota,omitempty"`
	Replaces       *struct{} `json:"replaces,omitempty"`
	ShareThreshold *struct{} `json:"share_threshold,omitempty"`
	Metadata       *struct{} `json:"metadata,omitempty"`
}

// knownBefore are the policies that builds before format 5 know.
var knownBefore = []string{
	"descriptor", "elastic_percent", "pool", "priority", "tiers", "schedule", "calendar", "active_from", "active_until",
	"when", "charge_on", "over_limit", "defer", "candidate", "retry_jitter_ms", "hot_keys", "hot_raise_percent", "addend",
	"unlimited", "quota", "replaces", "share_threshold", "metadata",
}

// laterField is a policy that builds before format 5 do not know.
type laterField struct {
	*rules.Field[rules.Rule]
	null []byte // its member in the JSON of a rule that does not have it
}

var laterFields = func() (later []laterField) {
	fields := rules.Fields()
	for i := range fields {
		if f := &fields[i]; f.Policy && !slices.Contains(knownBefore, f.Name) {
			later = append(later, laterField{f, []byte(`,"` + f.Name + `":null`)})
		}
	}
	return later
}()

// ruleEncoder encodes rules, all of them into the same memory: there may be 100,000, after each edit of one.
type ruleEncoder struct {
	text     bytes.Buffer
	json     *json.Encoder
	ordinary ordinary
}

func newRuleEncoder() *ruleEncoder {
	e := &ruleEncoder{}
	e.json = json.NewEncoder(&e.text)
	return e
}

// encode returns the JSON of a rule, with a line feed after it, and the form that it needs. It leaves out null members
// that builds before format 5 do not know. The text is valid until the next call.
func (e *ruleEncoder) encode(r *rules.Rule) (text []byte, form uint32, err error) {
	var value any = r
	form = formatDescriptors
	if r.Descriptor == nil {
		e.ordinary.Rule = r
		value, form = &e.ordinary, formatPlain
	}
	e.text.Reset()
	if err := e.json.Encode(value); err != nil {
		return nil, 0, err
	}
	text = e.text.Bytes()
	if r.NeedsHosts() {
		form = formatPolicies
	}
	for i := range laterFields {
		f := &laterFields[i]
		if !f.IsDefault(r) {
			form = formatPolicies
		} else if at := bytes.Index(text, f.null); at >= 0 { // no text contains a bare quote
			text = slices.Delete(text, at, at+len(f.null))
		}
	}
	return text, form, nil
}

// encodePools returns the JSON of the pools and the form that it needs. It leaves out false, which builds before
// format 5 do not know.
func encodePools(pools []rules.Pool) (text []byte, form uint32, err error) {
	if text, err = json.Marshal(pools); err != nil {
		return nil, 0, err
	}
	form = formatPlain
	if slices.ContainsFunc(pools, func(p rules.Pool) bool { return p.Shed }) {
		form = formatPolicies
	}
	return append(bytes.ReplaceAll(text, []byte(`,"shed":false`), nil), '\n'), form, nil // no text contains a bare quote
}

// write writes the JSON of c with other rules, one rule at a time, so that a
// hundred thousand take little memory. It returns the form of the JSON.
func (c *Copy) write(w io.Writer, rs iter.Seq[*rules.Rule]) (form uint32, err error) {
	form = formatPlain
	if len(c.Profiles) > 0 {
		form = formatDescriptors
	}
	stamp, err := json.Marshal(c.Stamp)
	if err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(w, `{"version":%d,"stamp":%s,"rules":[`, c.Version, stamp); err != nil {
		return 0, err
	}
	separator := ""
	formers := map[int64]*rules.Former{}
	encoder := newRuleEncoder()
	for r := range rs {
		if r.Former != nil {
			formers[r.ID], form = r.Former, format
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return 0, err
		}
		text, needs, err := encoder.encode(r)
		if err != nil {
			return 0, err
		}
		if _, err := w.Write(text); err != nil {
			return 0, err
		}
		form = max(form, needs)
		separator = ","
	}
	tokens := make([]token, len(c.Tokens))
	for i := range c.Tokens {
		t := &c.Tokens[i]
		tokens[i] = token{
			ID: t.ID, Name: t.Name, Hash: hex.EncodeToString(t.Hash[:]), Scopes: access.FormatScopes(t.Scopes),
			CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt,
		}
	}
	pools, needs, err := encodePools(c.Pools)
	if err != nil {
		return 0, err
	}
	form = max(form, needs)
	rest := []struct {
		name  string
		value any
		none  bool
	}{{`],"pools":`, json.RawMessage(pools), false}, {`,"profiles":`, c.Profiles, len(c.Profiles) == 0},
		{`,"tokens":`, tokens, false}, {`,"formers":`, formers, len(formers) == 0}}
	one := json.NewEncoder(w)
	for _, part := range rest {
		if part.none {
			continue
		}
		if _, err := io.WriteString(w, part.name); err != nil {
			return 0, err
		}
		if err := one.Encode(part.value); err != nil {
			return 0, err
		}
	}
	_, err = io.WriteString(w, "}")
	return form, err
}

// unmarshal fills everything but At. It is strict, so that a rule with a member
// that this build does not know is refused rather than decided without it.
func (c *Copy) unmarshal(data []byte) error {
	var in content
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	if in.Version < 0 {
		return fmt.Errorf("version %d", in.Version)
	}
	c.Version, c.Stamp, c.Rules, c.Pools, c.Profiles = in.Version, in.Stamp, in.Rules, in.Pools, in.Profiles
	for i := range c.Rules {
		r := &c.Rules[i]
		if r.Former = in.Formers[r.ID]; r.Addend == "" {
			r.Addend = rules.AddendTake // which ordinary leaves out
		}
	}
	c.Tokens = make([]access.Token, len(in.Tokens))
	for i := range in.Tokens {
		if err := in.Tokens[i].into(&c.Tokens[i]); err != nil {
			return fmt.Errorf("token %d: %w", in.Tokens[i].ID, err)
		}
	}
	return nil
}

// into converts. Scopes that this build does not know permit nothing, as when
// they come from the database.
func (t *token) into(out *access.Token) error {
	*out = access.Token{
		ID: t.ID, Name: t.Name, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
		RevokedAt: t.RevokedAt,
	}
	hash, err := hex.DecodeString(t.Hash)
	if err != nil || len(hash) != len(out.Hash) {
		return errors.New("its hash is not 64 hexadecimal digits") // and is not shown
	}
	copy(out.Hash[:], hash)
	if scopes, err := access.ParseScopes(t.Scopes); err == nil {
		out.Scopes = scopes
	}
	return nil
}
