package access

import "time"

// Session is a session of the console as stored.
type Session struct {
	// Token is the hash of the value of the cookie.
	Token string
	// Data is written and read by package web.
	Data      []byte
	ExpiresAt time.Time
}
