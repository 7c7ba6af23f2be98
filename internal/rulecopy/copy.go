package rulecopy

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/profile"
)

// Copy is what a node needs to decide without the rules database.
type Copy struct {
	// At is when the database last confirmed the rules, in whole milliseconds.
	At time.Time
	// Version is the version of the rules as a whole, 0 or greater.
	Version int64
	// Stamp distinguishes two states of one Version.
	Stamp string
	// Rules are the active rules. They are not validated here: compiling them
	// does that, as it does for rules from the database.
	Rules []rules.Rule
	// Pools are the pools that the rules may name.
	Pools []rules.Pool
	// Profiles are all profiles.
	Profiles []profile.Profile
	// Tokens are all tokens, revoked and expired ones too, because those keep
	// the open mode off.
	Tokens []access.Token
}

// content is the JSON inside a file.
type content struct {
	Version  int64             `json:"version"`
	Stamp    string            `json:"stamp"`
	Rules    []rules.Rule      `json:"rules"`
	Pools    []rules.Pool      `json:"pools"`
	Profiles []profile.Profile `json:"profiles"`
	Tokens   []token           `json:"tokens"`
	// Formers are the former limits of the rules, by id of the rule.
	Formers map[int64]*rules.Former `json:"formers"`
}

// token is access.Token with its hash, which access.Token never prints.
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

// write writes the JSON of c with other rules, one rule at a time, so that a
// hundred thousand take little memory.
func (c *Copy) write(w io.Writer, rs iter.Seq[*rules.Rule]) error {
	stamp, err := json.Marshal(c.Stamp)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, `{"version":%d,"stamp":%s,"rules":[`, c.Version, stamp); err != nil {
		return err
	}
	one := json.NewEncoder(w)
	separator := ""
	formers := map[int64]*rules.Former{}
	for r := range rs {
		if r.Former != nil {
			formers[r.ID] = r.Former
		}
		if _, err := io.WriteString(w, separator); err != nil {
			return err
		}
		if err := one.Encode(r); err != nil {
			return err
		}
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
	for _, part := range []struct {
		name  string
		value any
	}{{`],"pools":`, c.Pools}, {`,"profiles":`, c.Profiles}, {`,"tokens":`, tokens}, {`,"formers":`, formers}} {
		if _, err := io.WriteString(w, part.name); err != nil {
			return err
		}
		if err := one.Encode(part.value); err != nil {
			return err
		}
	}
	_, err = io.WriteString(w, "}")
	return err
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
		c.Rules[i].Former = in.Formers[c.Rules[i].ID]
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
