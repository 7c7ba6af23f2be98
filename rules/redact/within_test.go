package redact

import (
	"strings"
	"testing"
)

func TestWithin(t *testing.T) {
	const stripe, aws, hex = "sk_live_4eC39HqLyjWDarjtT1zdp7dc", "AKIAIOSFODNN7EXAMPLE",
		"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c"
	secret := []string{
		stripe, "token:" + stripe, "a|" + stripe + "|b", "a/" + hex + "/b", "t%253A" + aws, "a\x00" + aws, "a\xff" + hex,
		// Blanks and marks outside ASCII end a word too.
		"a\u200b" + stripe, "a\u00a0" + aws, "a：" + hex, "«" + stripe + "»", "a%E2%80%8B" + aws, "–" + hex,
		// A credential may stand behind a prefix.
		"acme-" + aws, "t_" + aws, "t_" + hex, "acme-eu-" + hex + "-1", "org-xoxb-2345678901-abcdefg", "x-" + stripe,
	}
	for _, v := range secret {
		if !Within(v) {
			t.Errorf("%q is shown", v)
		}
	}
	harmless := []string{
		"", "42", "user:42", "cs-sk-users", "user_pk_17", "region-ASIAPAC-1", "Türk_kullanıcılar_2026",
		"åsk-e-jobs-of-today-2026", "usr_550e8400-e29b-41d4-a716-446655440000",
		"a-long-slug-of-many-words-in-lower-case-2026", strings.Repeat("-", 4096),
		strings.Repeat("a-", 2048), "ünïcödé-ñame",
	}
	for _, v := range harmless {
		if Within(v) {
			t.Errorf("%q is hidden", v)
		}
	}
}
