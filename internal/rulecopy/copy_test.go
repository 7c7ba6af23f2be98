package rulecopy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
	"sluice/rules/profile"
)

const here = "postgres db.example:5432/sluice"

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

// sample has every kind of field filled somewhere.
func sample() *Copy {
	c := &Copy{At: noon, Version: 7, Stamp: "one of many"}
	for i := range 3 {
		r := rules.Rule{
			ID: int64(i + 1), Name: fmt.Sprintf("rule-%d", i), Description: "naïve <b>text</b>\n", Scope: "user",
			Limit: 5, WindowMS: 1000, IsActive: true, Version: int64(i + 1), CreatedAt: noon, UpdatedAt: noon,
		}
		r.Normalize()
		c.Rules = append(c.Rules, r)
	}
	c.Rules[1].Route, c.Rules[1].Method, c.Rules[1].AnchorMS = ptr("/v1/{x}"), ptr("POST"), ptr[int64](-5)
	c.Rules[2].Algorithm, c.Rules[2].Burst = "gcra", ptr[int64](1<<53-1)
	for i, scopes := range [][]access.Scope{{access.ScopeCheck}, {access.ScopeRulesWrite, access.ScopeCheck}} {
		_, hash := access.NewSecret()
		c.Tokens = append(c.Tokens, access.Token{
			ID: int64(i + 1), Name: "token", Hash: hash, Scopes: scopes, CreatedBy: "cli:ops", CreatedAt: noon,
		})
	}
	c.Tokens[1].ExpiresAt, c.Tokens[1].RevokedAt = ptr(noon), ptr(noon.Add(time.Millisecond))
	return c
}

// save saves a copy with its own rules.
func save(path, identity string, c *Copy) error {
	return SaveRules(path, identity, c, func() {}, slices.Values(pointers(c.Rules)))
}

// pointers are those of rs.
func pointers(rs []rules.Rule) []*rules.Rule {
	ps := make([]*rules.Rule, len(rs))
	for i := range rs {
		ps[i] = &rs[i]
	}
	return ps
}

// encode returns the bytes of a file.
func encode(t testing.TB, c *Copy) ([]byte, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.copy")
	if err := save(path, here, c); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func encoded(t testing.TB, c *Copy) []byte {
	t.Helper()
	b, err := encode(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// same compares, hashes of tokens included.
func same(t *testing.T, want, got *Copy) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(rules.Rule{}, "FailFrom")); diff != "" {
		t.Error(diff)
	}
}

func TestDecode_GivesBackWhatWasEncoded(t *testing.T) {
	for name, c := range map[string]*Copy{
		"full":  sample(),
		"empty": {At: noon, Rules: []rules.Rule{}, Tokens: []access.Token{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(here, encoded(t, c))
			if err != nil {
				t.Fatal(err)
			}
			same(t, c, got)
		})
	}
}

func TestDecode_RefusesACopyTornAnywhere(t *testing.T) {
	b := encoded(t, sample())
	for n := range b {
		if c, err := Decode(here, b[:n]); !errors.Is(err, ErrDamaged) || c != nil {
			t.Fatalf("%d of %d bytes: got %v, %v, want ErrDamaged", n, len(b), c, err)
		}
	}
	if _, err := Decode(here, append(b, 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too many: got %v, want ErrDamaged", err)
	}
}

func TestDecode_RefusesAnyFlippedBit(t *testing.T) {
	b := encoded(t, sample())
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			_, err := Decode(here, b)
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
				t.Fatalf("bit %d of byte %d: got %v, want a refusal", bit, i, err)
			}
			b[i] ^= 1 << bit
		}
	}
}

func TestDecode_SaysWhyItRefuses(t *testing.T) {
	good := encoded(t, sample())
	newer, earlier := bytes.Clone(good), bytes.Clone(good)
	binary.BigEndian.PutUint32(newer[len(magic):], format+1)
	binary.BigEndian.PutUint32(earlier[len(magic):], format-1)
	huge := bytes.Clone(good)
	binary.BigEndian.PutUint64(huge[headerSize-8:], 1<<63)
	tests := []struct {
		name     string
		identity string
		data     []byte
		want     error
		text     string
	}{
		{"newer format", here, newer, ErrFormat, "8, and this version reads 7"},
		{"earlier format", here, earlier, ErrFormat, "6, and this version reads 7"},
		{"another database", "postgres db.example:5432/staging", good, ErrForeign, "a different rules database"},
		{"something else", here, []byte("SQLite format 3\x00"), ErrDamaged, "its header is not"},
		{"nothing", here, nil, ErrDamaged, "incomplete"},
		{"half", here, good[:len(good)/2], ErrDamaged, "incomplete"},
		{"a length that nobody wrote", here, huge, ErrDamaged, "header gives"},
		{"not JSON", here, sealed("{"), ErrDamaged, "content"},
		{"two values", here, sealed(`{"version":1}{}`), ErrDamaged, "more than one"},
		{"negative version", here, sealed(`{"version":-1}`), ErrDamaged, "version -1"},
		{"a member that this version does not know", here, sealed(`{"version":1,"rules":[{"id":1,"quota":9}]}`), ErrDamaged, "quota"},
		{"short hash", here, sealed(`{"version":1,"tokens":[{"id":4,"hash":"abcd"}]}`), ErrDamaged, "token 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Decode(tt.identity, tt.data)
			if !errors.Is(err, tt.want) || c != nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, %v, want %v with %q", c, err, tt.want, tt.text)
			}
		})
	}
}

func TestDecode_GivesBackProfilesDescriptorsAndPools(t *testing.T) {
	c := sample()
	p := profile.New()
	p.Name, p.Domain, p.Entries = "shop", "inner", map[string]string{"remote_address": "ip"}
	p.Missing = map[string]profile.MissingFact{"user": {Value: "anonymous"}, "ip": {Action: profile.MissingDeny}}
	p.Weight, p.CreatedAt, p.UpdatedAt = &profile.WeightSource{Header: "X-Weight"}, noon, noon
	c.Profiles = []profile.Profile{p}
	r := rules.Rule{ID: 9, Name: "pay", Limit: 5, WindowMS: 1000, IsActive: true, Version: 1, CreatedAt: noon,
		UpdatedAt: noon,
		Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{
			{Key: "path", Pattern: "/pay*", Shared: true}, {Key: "user"}, {Key: "a", Value: "b"}}},
		Addend: rules.AddendCharge, Replaces: []string{"other"}, Metadata: map[string]string{"team": "pay"}}
	r.Normalize()
	c.Rules = append(c.Rules, r)
	c.Rules[0].Host, c.Rules[0].When = ptr("*.example.com"), ptr(`cidr(ip, "10.0.0.0/8")`)
	c.Rules[1].Ban = &rules.Ban{After: 3, WithinMS: 1000, ForMS: 1000, Grow: 1, MostMS: 64_000}
	pool := rules.NewPool()
	pool.Name, pool.Limit, pool.WindowMS, pool.CreatedAt, pool.UpdatedAt = "p", 5, 1000, noon, noon
	pool.Shed = true
	c.Pools = []rules.Pool{pool}
	got, err := Decode(here, encoded(t, c))
	if err != nil {
		t.Fatal(err)
	}
	same(t, c, got)
}

// A copy has the limits before an edit of the algorithm.
func TestDecode_GivesBackFormers(t *testing.T) {
	c := sample()
	c.Rules[1].Former = &rules.Former{AtMS: 7, Algorithm: "fixed_window", Limit: 5, WindowMS: 1000,
		Tiers: map[string]rules.TierLimit{"pro": {Limit: ptr[int64](9)}}}
	got, err := Decode(here, encoded(t, c))
	if err != nil {
		t.Fatal(err)
	}
	same(t, c, got)
}

func TestDecode_TakesUnknownScopesAsNone(t *testing.T) {
	c, err := Decode(here, sealed(`{"version":1,"tokens":[{"id":1,"hash":"`+strings.Repeat("ab", 32)+
		`","scopes":"everything"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Tokens[0]; got.Permits(access.ScopeCheck) || got.Hash[0] != 0xab {
		t.Errorf("got %v with hash byte %x, want no scope and ab", got, got.Hash[0])
	}
}

func TestFile_HoldsNoNameOfItsDatabase(t *testing.T) {
	if b := encoded(t, sample()); bytes.Contains(b, []byte("example")) {
		t.Error("the file names the database's host")
	}
}

func TestSave_ReplacesTheFileWholeAndPrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.copy")
	first, second := sample(), sample()
	second.Version = 8
	for _, c := range []*Copy{first, second} {
		if err := save(path, here, c); err != nil {
			t.Fatal(err)
		}
		got, err := Load(path, here)
		if err != nil {
			t.Fatal(err)
		}
		same(t, c, got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %o, want 600", mode)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSave_FailureLeavesTheOldFileAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := save(filepath.Join(dir, "taken"), here, sample()); err == nil {
		t.Error("saving over a folder succeeded")
	}
	if err := save(filepath.Join(dir, "missing", "rules.copy"), here, sample()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("saving into a missing folder: got %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestSave_SeveralNodesMayShareAPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.copy")
	if err := save(path, here, sample()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5 {
				if err := save(path, here, sample()); err != nil {
					t.Error(err)
				}
				if _, err := Load(path, here); err != nil {
					t.Errorf("a reader met a half-written file: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestLoad_TellsMissingFromUnreadable(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "rules.copy"), here); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want fs.ErrNotExist", err)
	}
	if _, err := Load(dir, here); !errors.Is(err, ErrDamaged) {
		t.Errorf("a folder: got %v, want ErrDamaged", err)
	}
	big := filepath.Join(dir, "big")
	if err := os.WriteFile(big, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(big, maxFile+1); err != nil { // sparse
		t.Fatal(err)
	}
	if _, err := Load(big, here); !errors.Is(err, ErrDamaged) {
		t.Errorf("a huge file: got %v, want ErrDamaged", err)
	}
}

// sealed is a file around any content, with everything else right.
func sealed(body string) []byte {
	database := fingerprint(here)
	head := binary.BigEndian.AppendUint32([]byte(magic), format)
	head = binary.BigEndian.AppendUint64(head, uint64(noon.UnixMilli()))
	head = append(head, database[:]...)
	head = binary.BigEndian.AppendUint64(head, uint64(len(body)))
	sum := sha256.Sum256(append([]byte(body), head...))
	return append(append(head, body...), sum[:]...)
}

func FuzzDecode(f *testing.F) {
	good := encoded(f, sample())
	f.Add(good, false)
	f.Add(good[:len(good)/2], false)
	f.Add([]byte(magic), false)
	f.Add(good[headerSize:len(good)-sha256.Size], true)
	f.Add([]byte(`{"version":1,"rules":[{"id":1,"name":"a","limit":-1}],"tokens":null}`), true)
	f.Add([]byte(`{"version":9223372036854775807,"rules":null,"tokens":[{"hash":""}]}`), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealed(string(data))
		}
		c, err := Decode(here, data)
		if err != nil {
			if c != nil {
				t.Fatalf("refused (%v), yet a copy came", err)
			}
			return
		}
		if _, err := match.Compile(c.Rules, c.Version, match.Options{}); err != nil {
			_ = err.Error() // refusing is right, only not panicking
		}
		again, err := encode(t, c)
		if err != nil {
			return // a time that JSON reads but does not write
		}
		back, err := Decode(here, again)
		if err != nil {
			t.Fatalf("what was accepted is refused when written again: %v", err)
		}
		if back.Version != c.Version || len(back.Rules) != len(c.Rules) || len(back.Tokens) != len(c.Tokens) {
			t.Fatal("what was accepted changes when written again")
		}
	})
}
