package access

import "time"

// Session is a session of the console as stored.
type Session struct {
	// Token is the hash of what the cookie holds.
	Token string
	// Data is for package web, which wrote it.
	Data      []byte
	ExpiresAt time.Time
}
