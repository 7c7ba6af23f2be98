package access

// Reasons are all names of reasons, as Reason.String has them: values of a metric label.
func Reasons() []string {
	names := make([]string, 0, NotLoaded)
	for r := NoCredentials; r <= NotLoaded; r++ {
		names = append(names, r.String())
	}
	return names
}

// String is the name of the reason in metrics and logs.
func (r Reason) String() string {
	switch r {
	case NoCredentials:
		return "none"
	case UnknownToken:
		return "unknown"
	case ExpiredToken:
		return "expired"
	case RevokedToken:
		return "revoked"
	case LacksScope:
		return "scope"
	case NotOpen:
		return "not_open"
	case NotLoaded:
		return "not_loaded"
	}
	return ""
}

// Refuse reports a call that is refused to Gate.Refused, and returns the refusal. Admit and AdmitGateway do so
// themselves: Refuse is for a scope that is known to be missing only after the body was read.
func (g *Gate) Refuse(endpoint string, r *Refusal) error {
	if g.Refused != nil {
		g.Refused(endpoint, r)
	}
	return r
}
