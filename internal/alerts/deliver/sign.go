package deliver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"sluice/internal/alerts"
)

// signatures signs a message as version 1 of Standard Webhooks does: an HMAC-SHA-256 of id.timestamp.body for each
// secret, separated by blanks.
func signatures(secrets []string, id string, at time.Time, body []byte) string {
	var out []string
	for _, secret := range secrets {
		key := alerts.KeyOf(secret)
		if key == nil {
			continue
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(out, " ")
}
