package decide

import "strings"

// Bounds of the texts of an origin, in bytes.
const (
	MaxUserAgent = 512
	MaxTraceID   = 64
)

// Origin says where a question came from. It decides nothing.
type Origin struct {
	// Face is where it came in: http, or that of a gateway or of Envoy. It is not what the caller sent.
	Face string
	// UserAgent is that of the client's request, and TraceID the id of its trace; "" if unknown. Longer ones than
	// MaxUserAgent and MaxTraceID are cut where they are recorded.
	UserAgent, TraceID string
}

// TraceOf returns the trace id of a traceparent header (https://www.w3.org/TR/trace-context/), "" if it has none.
func TraceOf(traceparent string) string {
	const version, id = len("00-"), 32
	if len(traceparent) < version+id+1 || traceparent[version-1] != '-' || traceparent[version+id] != '-' {
		return ""
	}
	trace := traceparent[version : version+id]
	if strings.Trim(trace, "0123456789abcdef") != "" || strings.Trim(trace, "0") == "" {
		return ""
	}
	return trace
}
