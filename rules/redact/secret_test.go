package redact

import "testing"

func TestSecret_KnowsCredentials(t *testing.T) {
	for _, v := range []string{
		"sk_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_test_x", "pk_live_x", "slk_abc", "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
		"xoxb-123-456", "AKIAIOSFODNN7EXAMPLE", "Bearer abc", "bearer abc", "Basic dXNlcg==", "glpat-abc",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
		"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", // hex
		"9f86d081884c7d659a2feaa0c55ad015",                                 // 128 bits of it
		"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1",                        // base64
		"mfrggzdfmztwq2lknnwg23tpobyxe43uov3ho6dz",                         // base32
	} {
		if !Secret(v) {
			t.Errorf("%s passes as harmless", v)
		}
	}
}

func TestSecret_LeavesNamesAlone(t *testing.T) {
	for _, v := range []string{
		"", "42", "user-42", "acme", "free", "someone@example.org", "550e8400-e29b-41d4-a716-446655440000",
		"how-to-build-a-rate-limiter-in-go-2026", "00000000000000000000000000000000", "12345678901234567890123456789012345",
		"a very long sentence with spaces and the number 42 in it", "skate", "bearer", "pkg", "/v1/charges", "München",
		"a-department-with-a-long-name-and-no-digits",
	} {
		if Secret(v) {
			t.Errorf("%s is taken for a credential", v)
		}
	}
}
