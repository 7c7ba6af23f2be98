package reply

import "sluice/api/decide"

// The statuses that a gateway answers its client with, as HTTP numbers them.
const (
	statusOK          = 200
	statusAccepted    = 202
	statusTooMany     = 429
	statusUnavailable = 503
)

// Status is the HTTP status that a gateway should answer its client with.
func Status(a *decide.Answer) int {
	switch a.Verdict {
	case decide.Allowed:
		return statusOK
	case decide.Denied:
		return statusTooMany
	case decide.Deferred:
		return statusAccepted
	}
	return statusUnavailable
}
