// Command notices writes the licences of everything that is linked into the program: the Go distribution, each module
// on any of the platforms of a release, and the files of others that the console ships. Whoever passes the program on
// must pass these on too.
//
//	go run ./internal/notices linux/amd64 darwin/arm64 > NOTICES
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// vendored is the folder of files of others in the console: a folder for each source, with its licence.
const vendored = "web/static/vendor"

// part is something that is linked, and the folder with its licence.
type part struct{ name, dir string }

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "notices: say which platforms, as in: notices linux/amd64 darwin/arm64")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

// write writes the notices for platforms such as linux/amd64, in the order of the names.
func write(w io.Writer, platforms []string) error {
	parts, err := linked(platforms)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	out.WriteString("Sluice contains the following works. Each is followed by its own licence.\n")
	for _, p := range parts {
		texts, err := licences(p.dir)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Fprintf(&out, "\n%s\n%s\n", strings.Repeat("=", 80), p.name)
		for _, name := range texts {
			text, err := os.ReadFile(filepath.Join(p.dir, name))
			if err != nil {
				return err
			}
			fmt.Fprintf(&out, "\n--- %s\n\n%s\n", name, bytes.TrimSpace(text))
		}
	}
	_, err = w.Write(out.Bytes())
	return err
}

// linked are the parts of the program on the platforms.
func linked(platforms []string) ([]part, error) {
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	parts := map[part]bool{{"Go", strings.TrimSpace(string(root))}: true}
	for _, platform := range platforms {
		if err := modules(platform, parts); err != nil {
			return nil, err
		}
	}
	folders, err := os.ReadDir(vendored)
	if err != nil {
		return nil, fmt.Errorf("run this at the top of the project: %w", err)
	}
	for _, f := range folders {
		parts[part{f.Name(), filepath.Join(vendored, f.Name())}] = true
	}
	var out []part
	for p := range parts {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b part) int { return cmp.Compare(a.name, b.name) })
	return out, nil
}

// modules adds the modules that are linked on a platform.
func modules(platform string, parts map[part]bool) error {
	system, machine, ok := strings.Cut(platform, "/")
	if !ok {
		return fmt.Errorf("%q is no platform: write it as linux/amd64", platform)
	}
	list := exec.CommandContext(context.Background(), "go", "list", "-deps", "-json=Module", "./cmd/sluice")
	list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	packages, err := list.Output()
	if err != nil {
		return fmt.Errorf("go list for %s: %w", platform, err)
	}
	for dec := json.NewDecoder(bytes.NewReader(packages)); ; {
		var p struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("go list for %s: %w", platform, err)
		case p.Module != nil && !p.Module.Main:
			parts[part{p.Module.Path + " " + p.Module.Version, p.Module.Dir}] = true
		}
	}
}

// licences are the names of the files in a folder that are licences or notices, at least one.
func licences(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		name := strings.ToUpper(f.Name())
		name = strings.TrimSuffix(strings.TrimSuffix(name, ".TXT"), ".MD")
		for _, begin := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS", "OFL"} {
			after, ok := strings.CutPrefix(name, begin)
			if ok && f.Type().IsRegular() && (after == "" || after[0] == '-' || after[0] == '.' && after != ".GO") {
				out = append(out, f.Name())
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("it has no licence that this program knows: look into its folder, and add the name here")
	}
	return out, nil
}
