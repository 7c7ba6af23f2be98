package redact

import (
	"strings"

	"sluice/rules/chars"
)

// Hidden replaces a value that must not be shown.
const Hidden = "(hidden)"

// Text returns a value as it may be shown in the console, in samples and in logs: unchanged, or
// Hidden if it looks like a credential.
func Text(v string) string {
	if Secret(v) {
		return Hidden
	}
	return v
}

// Path is Text for each segment of a path, without query and fragment. A segment is hidden as well if it is a
// credential once its escapes are decoded.
func Path(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	if !SecretPath(path) && !strings.Contains(path, "%") {
		return path
	}
	parts := strings.Split(path, "/")
	for i := range parts {
		if parts[i] = Text(parts[i]); SecretPath(chars.Unescape(parts[i])) {
			parts[i] = Hidden
		}
	}
	return strings.Join(parts, "/")
}
