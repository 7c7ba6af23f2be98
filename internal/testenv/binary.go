package testenv

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// findBinary returns the path of a server program: from PATH, or otherwise the newest match of the glob patterns, which
// cover programs that Debian keeps out of PATH. The error names the Debian package.
func findBinary(name, debianPackage string, globs ...string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, pattern := range globs {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("pattern %s: %w", pattern, err)
		}
		slices.Sort(found)
		for _, path := range slices.Backward(found) {
			if _, err := exec.LookPath(path); err == nil {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not installed: it comes with the Debian package %s; run `make deps` as root", name,
		debianPackage)
}
