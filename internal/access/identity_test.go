package access

import (
	"regexp"
	"strings"
	"testing"
)

func TestAccountName_IsAlwaysOne(t *testing.T) {
	for text, want := range map[string]string{
		"ada": "ada", "Ada.Lovelace@Example.COM": "ada.lovelace@example.com", "Ada Lovelace": "ada-lovelace",
		"DOMAIN\\ada": "domain-ada",
		"":            "person", "  ": "person", "@@": "person", "-x-": "x", "Łucja Ö": "ucja", "名前": "person", "a//b": "a-b",
		"<script>alert(1)</script>": "script-alert-1-script", "a\x00b\nc": "a-b-c",
		strings.Repeat("x", 100): strings.Repeat("x", MaxName),
	} {
		if got := AccountName(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	valid := regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,62}$`)
	for _, text := range []string{strings.Repeat("Ä", 80), strings.Repeat("a ", 80), "\xff\xfe", "İ", "K"} {
		if got := AccountName(text); !valid.MatchString(got) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestNewChallenge_HasThreeSecretsOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		c := NewChallenge(true)
		for _, s := range []string{c.State, c.Nonce, c.Verifier} {
			if len(s) != 43 || seen[s] {
				t.Fatalf("secret %q", s)
			}
			seen[s] = true
		}
		if !c.Fresh {
			t.Error("fresh is lost")
		}
	}
}
