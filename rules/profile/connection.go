package profile

import (
	"errors"
	"time"
)

// Connection is what the console stored together with the profile of a gateway that was connected there.
type Connection struct {
	// TokenID is the token that was made for the gateway, 0 if the gateway sends none.
	TokenID int64
	// Inputs are what the page was filled in with, by the names of its fields. Only the page knows what they mean.
	Inputs map[string]string
	// AskedAt is when the first question with the profile came; nil if none has come.
	AskedAt *time.Time
}

// ErrAsked means that a gateway has asked with a profile, so that it is not removed together with its token.
var ErrAsked = errors.New("a gateway has asked with this profile")
