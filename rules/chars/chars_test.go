package chars

import "testing"

func TestEscape_WritesALineThatUnescapeReads(t *testing.T) {
	for text, want := range map[string]string{
		"/v1/pay": "/v1/pay", "": "", "a=b": "a%3Db", "50%": "50%25", " a b ": "%20a b%20", "  ": "%20%20",
		"a\nb\x00": "a%0Ab%00", "a\u202eb": "a%E2%80%AEb", "\u200bé": "%E2%80%8Bé", "\u00a0": "%C2%A0",
		"a\xffb": "a%FFb",
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

func TestShown_KeepsWhatPeopleSeeAndWritesTheRestAsBytes(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "/v1/pay?a=50%": "/v1/pay?a=50%", "naïve 日本": "naïve 日本", "\ufffd": "\ufffd",
		"a\rb": "a%0Db", "a\nb": "a%0Ab", "a\r\nb\tc": "a%0D%0Ab%09c", "\x1b[31m": "%1B[31m", "\x7f": "%7F",
		"a\u0085b": "a%C2%85b", "a\u2028b\u2029": "a%E2%80%A8b%E2%80%A9", "a\u202eb": "a%E2%80%AEb",
		"a\u2066b": "a%E2%81%A6b", "a\u200db": "a%E2%80%8Db", "a\xff\xc3": "a%FF%C3", "a\u00a0": "a%C2%A0",
	} {
		if got := Shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	if got := ShownLines("a\n\tb\r\nc\u202e"); got != "a\n\tb%0D\nc%E2%80%AE" {
		t.Errorf("several lines are shown as %q", got)
	}
}

func TestCell_IsNoFormulaAndOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a=b": "a=b", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "＝1": "'＝1", "＋1": "'＋1",
		"－1": "'－1", "＠x": "'＠x", "\t=1": "'%09=1", "\r=1": "'%0D=1", "\n=1": "'%0A=1", "a\nb": "a%0Ab",
		"|x": "'|x", "'=1": "''=1", "'a": "'a",
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestUnescapeShown_LeavesWhatEscapeDoesNotWrite(t *testing.T) {
	for typed, want := range map[string]string{
		"":             "",
		"100%":         "100%",
		"%41":          "%41",
		"a%0Ab%41":     "a\nb%41",
		"%0a%25":       "\n%",
		"%2541":        "%41",
		"%C3%A9":       "%C3%A9", // é, which is shown as it is
		"%E2%80%AE x":  "\u202e x",
		"%FF%41%E2%80": "\xff%41\xe2\x80",
		"%4":           "%4",
	} {
		if got := UnescapeShown(typed); got != want {
			t.Errorf("%q: got %q, want %q", typed, got, want)
		}
	}
	for _, text := range []string{"a\nb", "%41", "\xff\u202e%", "é %0A"} {
		if got := UnescapeShown(Escape(text, "")); got != text {
			t.Errorf("%q: got %q", text, got)
		}
	}
}
