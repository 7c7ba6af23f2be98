package telemetry

import (
	"io"
	"log/slog"
)

// Log creates the logger of the process. level is debug, info, warn or error; format is
// text or json (one object per line). Other values mean info and text; the configuration
// rejects them before. A line of a known kind has the attribute event: see Events.
func Log(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(named{slog.NewJSONHandler(w, opts)})
	}
	return slog.New(named{slog.NewTextHandler(w, opts)})
}
