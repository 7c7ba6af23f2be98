package redact

import (
	"strings"

	"sluice/rules/chars"
)

// Secret reports whether a value has the form of a credential: a known prefix (sk_, ghp_, AKIA,
// …), an Authorization value, a JWT, or a long string of random-looking hex or base64. Such values
// are hashed in keys and displays, because people put tokens where a user's name belongs. In doubt
// it returns true: hashing a harmless value costs only its readability. A UUID is not a secret.
func Secret(v string) bool {
	if len(v) < 6 {
		return false
	}
	return hasSecretPrefix(v) || isJWT(v) || looksRandom(v)
}

// SecretPath is Secret for each segment of a path.
func SecretPath(path string) bool {
	from := 0
	for i := 0; i <= len(path); i++ {
		if i == len(path) || path[i] == '/' {
			if Secret(path[from:i]) {
				return true
			}
			from = i + 1
		}
	}
	return false
}

var secretPrefixes = []string{
	"sk_", "sk-", "pk_", "rk_", "slk_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
	"glpat-", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "xoxe-", "xapp-", "AKIA", "ASIA", "AIza", "ya29.", "SG.",
	"npm_",
}

// prefixesBy groups secretPrefixes by first byte.
var prefixesBy = func() (t [256][]string) {
	for _, p := range secretPrefixes {
		t[p[0]] = append(t[p[0]], p)
	}
	return t
}()

func hasSecretPrefix(v string) bool {
	for _, p := range prefixesBy[v[0]] {
		if strings.HasPrefix(v, p) {
			return true
		}
	}
	return v[0]|0x20 == 'b' && (hasFoldPrefix(v, "bearer ") || hasFoldPrefix(v, "basic "))
}

func hasFoldPrefix(v, prefix string) bool {
	return len(v) >= len(prefix) && strings.EqualFold(v[:len(prefix)], prefix)
}

// isJWT reports three parts with dots between them, the first the base64 of `{"`.
func isJWT(v string) bool {
	return strings.HasPrefix(v, "eyJ") && strings.Count(v, ".") >= 2
}

// minRandom is the shortest string that can look random, 128 bits of hex.
const minRandom = 32

// looksRandom reports one long word of hex with at least 9 different digits, or of base64 with at
// least 16 different characters, including digits and letters. 32 random hex digits have 14
// different ones on average, 32 base64 ones 25.
func looksRandom(v string) bool {
	if len(v) < minRandom || isUUID(v) {
		return false
	}
	var seen [256]bool
	var distinct, digits, uppers, lowers, marks int
	hex := true
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'A' && c <= 'Z':
			uppers++
		case c >= 'a' && c <= 'z':
			lowers++
		case c == '+' || c == '/' || c == '=' || c == '-' || c == '_':
			marks++
		default:
			return false
		}
		hex = hex && chars.IsHex(c)
		if !seen[c] {
			seen[c] = true
			distinct++
		}
	}
	if digits == 0 || uppers+lowers == 0 {
		return false
	}
	if hex {
		return distinct >= 9
	}
	// One case only, with separators, is how slugs look.
	oneCase := uppers == 0 || lowers == 0
	return distinct >= 16 && (!oneCase || marks == 0)
}

// isUUID reports 8-4-4-4-12 hex digits.
func isUUID(v string) bool {
	if len(v) != 36 {
		return false
	}
	for i := 0; i < len(v); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if v[i] != '-' {
				return false
			}
		} else if !chars.IsHex(v[i]) {
			return false
		}
	}
	return true
}
