package script

import (
	"strings"

	"sluice/limiter"
)

// replyCauses maps the first word of an error reply. Whatever a server refuses
// with one of these it has not begun to run.
var replyCauses = []struct {
	prefix string
	cause  limiter.Cause
}{
	{"WRONGTYPE", limiter.CauseWrongType},
	{"READONLY", limiter.CauseReadOnly},
	{"MISCONF", limiter.CauseReadOnly},
	{"NOREPLICAS", limiter.CauseReadOnly},
	{"LOADING", limiter.CauseLoading},
	{"OOM", limiter.CauseMemory},
	{"NOAUTH", limiter.CauseAuth},
	{"WRONGPASS", limiter.CauseAuth},
	{"NOPERM", limiter.CauseAuth},
	{"BUSY", limiter.CauseBusy},
	{"MOVED", limiter.CauseCluster},
	{"ASK", limiter.CauseCluster},
	{"TRYAGAIN", limiter.CauseCluster},
	{"CROSSSLOT", limiter.CauseCluster},
	{"CLUSTERDOWN", limiter.CauseCluster},
	{"MASTERDOWN", limiter.CauseCluster},
	{"GIVENUP", limiter.CauseCanceled},  // the script's own: a late take
	{"BADSTATE", limiter.CauseBadState}, // the script's own: a value that is not one of ours
	{"LATE", limiter.CauseTimeout},      // the script's own: the limits held until then; see Ask.NotAfter
	{"ERR max number of clients", limiter.CauseBusy},
	{"ERR AUTH", limiter.CauseAuth},
}

// CauseOf is the cause that an error reply stands for, of a whole call or of one
// request inside it; limiter.CauseInternal if it is not one of those listed.
func CauseOf(msg string) limiter.Cause {
	msg = strings.TrimPrefix(msg, "-")
	for _, rc := range replyCauses {
		if strings.HasPrefix(msg, rc.prefix) {
			return rc.cause
		}
	}
	return limiter.CauseInternal
}

// TrimTrace cuts off where in the script an error reply came from.
func TrimTrace(msg string) string {
	if i := strings.Index(msg, " script: "); i >= 0 {
		return msg[:i]
	}
	return msg
}
