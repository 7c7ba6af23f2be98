package chars

import "testing"

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
