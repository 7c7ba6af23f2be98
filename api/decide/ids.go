package decide

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// randomID names a lease that its caller did not name: 128 random bits.
func randomID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// reportID is the id of what is charged by report. A caller may well name the
// report as the check that it is about; the two leave records of their own.
func reportID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return "~r~" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// apartID is the id of the own call of a shadow rule or a candidate. It differs
// from the enforced limits' id, so that each leaves a record of its own, and it
// is a function of both, so that a repeat, a refund or a release finds them again.
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
