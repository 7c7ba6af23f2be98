package chars

import "testing"

func TestEscape_WritesALineThatUnescapeReads(t *testing.T) {
	for text, want := range map[string]string{
		"/v1/pay": "/v1/pay", "": "", "a=b": "a%3Db", "50%": "50%25", " a b ": "%20a b%20", "  ": "%20%20",
		"a\nb\x00": "a%0Ab%00", "a\u202eb": "a%E2%80%AEb", "\u200bé": "%E2%80%8Bé", "\u00a0": "%C2%A0",
	} {
		got := Escape(text, "=")
		if got != want {
			t.Errorf("%q became %s", text, got)
		}
		if back := Unescape(got); back != text {
			t.Errorf("%q came back as %q", text, back)
		}
	}
}

func TestUnescape_ReadsWhatAppendEscapedWrites(t *testing.T) {
	for c := range 256 {
		if got := Unescape(string(AppendEscaped(nil, byte(c)))); got != string([]byte{byte(c)}) {
			t.Errorf("byte %d came back as %q", c, got)
		}
	}
	if got := Unescape("100% %2"); got != "100% %2" {
		t.Errorf("a %% that begins nothing became %q", got)
	}
}
