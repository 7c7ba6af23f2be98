package view

// Commands to copy into a shell. base is the address of the server, as in http://127.0.0.1:8080.

// TokenLine is the command that puts the secret of a token where the other commands expect it.
func TokenLine(secret string) string { return "export SLUICE_TOKEN=" + secret + "\n" }

// CheckSample is a command that asks about one request. The token needs the scope check.
func CheckSample(base string) string {
	return "curl -s " + base + "/ratelimit/check -H \"Authorization: Bearer $SLUICE_TOKEN\" \\\n" +
		"  -H 'Content-Type: application/json' \\\n" +
		"  -d '{\"method\": \"GET\", \"route\": \"/\", \"user\": \"u1\", \"api_key\": \"k1\", \"ip\": \"192.0.2.1\"}'\n"
}

// RulesSample is a command that lists rules. The token needs the scope rules:read.
func RulesSample(base string) string {
	return "curl -s " + base + "/ratelimit/rules -H \"Authorization: Bearer $SLUICE_TOKEN\"\n"
}
