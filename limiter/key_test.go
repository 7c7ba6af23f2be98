package limiter

import (
	"strings"
	"testing"
)

func TestDirectKey_KeepsItsTagWhateverTheCallerSends(t *testing.T) {
	tests := []struct{ key, want string }{
		{"user:42:GET:/v1/charges", "{key:user:42:GET:/v1/charges}|w60000|sc"},
		{"}{evil}", "{key:%7D%7Bevil%7D}|w60000|sc"},
		{"a|b+c%", "{key:a%7Cb%2Bc%25}|w60000|sc"},
		{"nul\x00\xffé", "{key:nul%00%FF%C3%A9}|w60000|sc"},
		{"", "{key:}|w60000|sc"},
	}
	for _, tt := range tests {
		k := DirectKey(tt.key, Limit{Algorithm: SlidingWindowCounter, Count: 1, Window: 60_000})
		if string(k) != tt.want {
			t.Errorf("DirectKey(%q) = %q, want %q", tt.key, k, tt.want)
		}
		if want := strings.TrimSuffix(tt.want[1:], "}|w60000|sc"); k.Tag() != want {
			t.Errorf("Tag of %q = %q, want %q", k, k.Tag(), want)
		}
	}
}

func TestAppendValue_HashesWhatIsTooLong(t *testing.T) {
	long := strings.Repeat("x", MaxKeyValue+1)
	got := string(AppendValue([]byte("a:"), long))
	if !strings.HasPrefix(got, "a:%h") || len(got) != len("a:%h")+43 {
		t.Errorf("AppendValue of %d bytes = %q, want %%h and 43 characters", len(long), got)
	}
	if same := string(AppendValue(nil, long[1:])); same != long[1:] {
		t.Errorf("a value of %d bytes was changed to %q", MaxKeyValue, same)
	}
	if other := string(AppendValue([]byte("a:"), long+"y")); other == got {
		t.Error("two long values share a key")
	}
}

func FuzzAppendValue_IsInjective(f *testing.F) {
	f.Add("a", "b")
	f.Add("%41", "A")
	f.Add("a|b", "a%7Cb")
	f.Add("{", "%7B")
	f.Add("%hAAAA", strings.Repeat("z", 200))
	f.Fuzz(func(t *testing.T, a, b string) {
		ka, kb := string(AppendValue(nil, a)), string(AppendValue(nil, b))
		if (a == b) != (ka == kb) {
			t.Fatalf("%q -> %q, %q -> %q", a, ka, b, kb)
		}
		if strings.ContainsAny(ka, "{}|+ \x00\n") || len(ka) > MaxKeyValue {
			t.Fatalf("%q -> %q leaves a separator or is too long", a, ka)
		}
	})
}
