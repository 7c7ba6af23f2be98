package redact

import "strings"

// Hidden replaces a value that must not be shown.
const Hidden = "(hidden)"

// Text returns a value as it may be shown in the console, in samples and in logs: unchanged, or
// Hidden if there is a credential in it.
func Text(v string) string {
	if Within(v) {
		return Hidden
	}
	return v
}

// Path is Text for each segment of a path, without query and fragment.
func Path(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	if !strings.Contains(path, "%") && !Within(path) {
		return path
	}
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = Text(parts[i])
	}
	return strings.Join(parts, "/")
}
