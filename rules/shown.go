package rules

import "strings"

// Hidden stands where a value must not be shown.
const Hidden = "(hidden)"

// Shown is a value as people may see it in the console, in samples and in logs:
// itself, or Hidden if it looks like a credential.
func Shown(v string) string {
	if LooksSecret(v) {
		return Hidden
	}
	return v
}

// ShownRoute is Shown for each segment of a path, without query and fragment.
func ShownRoute(path string) string {
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	if !looksSecretRoute(path) {
		return path
	}
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = Shown(parts[i])
	}
	return strings.Join(parts, "/")
}
