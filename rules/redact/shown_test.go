package redact

import "testing"

func TestText_HidesCredentialsOnly(t *testing.T) {
	tests := []struct{ in, want string }{
		{"42", "42"},
		{"", ""},
		{"alice@example.com", "alice@example.com"},
		{"sk_live_abcdef", Hidden},
		{"Bearer abcdef", Hidden},
		{"token:sk_live_abcdef", Hidden},
		{"a%20b%3Dsk_live_abcdef", Hidden},
	}
	for _, tt := range tests {
		if got := Text(tt.in); got != tt.want {
			t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestPath_HidesTheSegmentAlone(t *testing.T) {
	tests := []struct{ in, want string }{
		{"/v1/charges", "/v1/charges"},
		{"/v1/keys/sk_live_abcdef/rotate", "/v1/keys/" + Hidden + "/rotate"},
		{"/v1/key=sk_live_abcdef/rotate", "/v1/" + Hidden + "/rotate"},
		{"/v1/charges?token=sk_live_abcdef", "/v1/charges"},
		{"/v1/a#sk_live_abcdef", "/v1/a"},
		{"/v1/%73k%5Flive_abcdef", "/v1/" + Hidden},
		{"/v1/a%2Fsk_live_abcdef/Bearer%20abcdef/100%25", "/v1/" + Hidden + "/" + Hidden + "/100%25"},
	}
	for _, tt := range tests {
		if got := Path(tt.in); got != tt.want {
			t.Errorf("Path(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
