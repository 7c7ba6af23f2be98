package telemetry

import "runtime/debug"

// release is the version in semver form.
const release = "1.0.0"

// Build identifies a build of sluice.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	// Time is when the revision was committed, RFC 3339; empty if unknown.
	Time string `json:"time"`
	// Modified is true if the working copy contained changes that are not in the revision.
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
}

// ReadBuild reads the build information that the Go toolchain stored in the binary. go run and go
// test record no revision; it is then "unknown".
func ReadBuild() Build {
	b := Build{Version: release, Revision: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
