package decide

import "strings"

// Bounds of the texts of an origin, in bytes.
const (
	MaxUserAgent = 512
	MaxTraceID   = 64
)

// Origin says where a question came from. It decides nothing.
type Origin struct {
	// Face is the endpoint that received the request: http, or the name of an endpoint for a gateway or Envoy. The
	// caller does not set it.
	Face string
	// UserAgent is the user agent of the client's request, and TraceID the id of its trace; "" if unknown. They are cut
	// to MaxUserAgent and MaxTraceID where they are recorded.
	UserAgent, TraceID string
}

// TraceOf returns the trace id of a traceparent header (https://www.w3.org/TR/trace-context/), "" if it is not valid.
func TraceOf(traceparent string) string {
	const idAt, parentAt, flagsAt, end = 3, 36, 53, 55 // of version-id-parent-flags, which are 2, 32, 16 and 2 digits
	if len(traceparent) < end || traceparent[idAt-1] != '-' || traceparent[parentAt-1] != '-' ||
		traceparent[flagsAt-1] != '-' {
		return ""
	}
	version, id := traceparent[:idAt-1], traceparent[idAt:parentAt-1]
	parent, flags := traceparent[parentAt:flagsAt-1], traceparent[flagsAt:end]
	rest := traceparent[end:] // of later versions only
	switch {
	case !isHex(version) || !isHex(id) || !isHex(parent) || !isHex(flags) || isZero(id) || isZero(parent):
		return ""
	case version == "ff" || rest != "" && rest[0] != '-':
		return ""
	case version == "00" && (rest != "" || flags > "03"): // as OpenTelemetry does, so that spans belong to the same trace
		return ""
	}
	return id
}

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

func isZero(s string) bool { return strings.Trim(s, "0") == "" }
