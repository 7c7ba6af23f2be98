package region

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"sluice/internal/wire"
	"sluice/limiter"
)

const (
	// Path is where a region takes messages of every kind. The media type says of which kind one is.
	Path = "/ratelimit/regions/exchange"
	// MaxMessage is the longest message, in bytes, compressed or not.
	MaxMessage = 1 << 20
	// MaxName bounds the name of a region, in bytes.
	MaxName = 64
)

var (
	// ErrMessage wraps every refusal of a message that no region writes.
	ErrMessage = errors.New("not a message of a region")
	// ErrBusy means that this node handles as many other messages as it can. Sending the message again helps.
	ErrBusy = errors.New("too many other messages are being handled")
)

// Head says who sends a message, to whom, and when. Messages of all kinds begin with it.
type Head struct {
	// From and To are the names of the regions, each of 1 to 64 bytes.
	From, To string
	// Prefix begins the keys in the Redis of the sender, 1 to 64 bytes. It is the same in all regions.
	Prefix string
	// At is the time of sending, ms since the epoch on the sender's clock.
	At int64
	// Set is the version of its rules.
	Set int64
}

// Append appends the head: from, to and prefix as texts, at and set as varints.
func (h *Head) Append(b []byte) []byte {
	b = wire.AppendText(wire.AppendText(wire.AppendText(b, h.From), h.To), h.Prefix)
	return binary.AppendVarint(binary.AppendVarint(b, h.At), h.Set)
}

// ReadHead reads what Append wrote. A head that is not complete fails the reader.
func ReadHead(r *wire.Reader) Head {
	h := Head{From: r.Text(MaxName), To: r.Text(MaxName), Prefix: r.Text(MaxName), At: r.Varint(), Set: r.Varint()}
	if h.From == "" || h.To == "" || h.Prefix == "" || h.At < 0 || h.At > limiter.MaxExact || h.Set < 0 {
		r.Fail()
	}
	return h
}

// RefusedError says why a message that is well-formed is not for this region. From is who says to have sent it.
type RefusedError struct{ From, Field, Message string }

func (e *RefusedError) Error() string { return e.Field + " " + e.Message }

// Refuse returns why a message is not for the region self, whose keys have a prefix and which knows some others; nil if
// it is.
func (h *Head) Refuse(self, prefix string, others []string) *RefusedError {
	switch {
	case h.From == self:
		return &RefusedError{h.From, "from", fmt.Sprintf("is %q, which is this region: two regions have one name, or an "+
			"address of SLUICE_REGIONS is that of the sender", h.From)}
	case !slices.Contains(others, h.From):
		return &RefusedError{h.From, "from", fmt.Sprintf("is %q, which is not in the SLUICE_REGIONS of %s", h.From, self)}
	case h.To != self:
		return &RefusedError{h.From, "to", fmt.Sprintf("is %q, but this is %s: an address of SLUICE_REGIONS is that of "+
			"another region", h.To, self)}
	case h.Prefix != prefix:
		return &RefusedError{h.From, "prefix", fmt.Sprintf("is %q, but SLUICE_KEY_PREFIX of %s is %q", h.Prefix, self,
			prefix)}
	}
	return nil
}
