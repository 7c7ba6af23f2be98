package decide

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// randomID returns the id of a lease for a caller that sent none: 128 random bits.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// reportID returns the id of a charge by report. A caller may use the same id for the report
// and for the check that it reports on; the two have separate records.
func reportID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "~r~" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// apartID returns the id of the call of a shadow rule or a candidate. It differs from the id of
// the enforced limits, so that each has its own record. It depends only on that id and the rule,
// so that a repeat, a refund or a release finds the record.
func apartID(id string, p *plannedLimit) string {
	if id == "" {
		return ""
	}
	mark := "~"
	if p.candidate {
		mark = "~c"
	}
	sum := sha256.Sum256([]byte(id))
	return mark + strconv.FormatInt(p.rule.Rule.ID, 10) + "~" + base64.RawURLEncoding.EncodeToString(sum[:16])
}
