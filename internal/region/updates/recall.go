package updates

import (
	"fmt"

	"sluice/internal/region"
	"sluice/internal/wire"
)

// Ask is the message of a region that has lost its data. It asks another region for a page of two kinds of sums: those
// which that region has received from the sender, and its own.
type Ask struct {
	region.Head

	// Cursor is "" at first, and then Page.Next.
	Cursor string
}

// Page answers an Ask, with messages as in the exchange. Their From is the region whose sums they have.
type Page struct {
	// Next is where the next page begins, "" after the last one.
	Next     string
	Messages []*Message
}

const (
	// MaxPage is the longest page, in bytes.
	MaxPage = 32 << 20
	// maxCursor bounds a cursor, in bytes.
	maxCursor = 64
)

// An ask is the version, the head, and the cursor as a text. A page is the version, the next cursor as a text, and its
// messages, each as bytes with their number, uvarint.

// EncodeAsk returns an ask as bytes.
func EncodeAsk(a *Ask) []byte { return wire.AppendText(a.Append([]byte{Version}), a.Cursor) }

// DecodeAsk reads an ask. The error wraps region.ErrMessage.
func DecodeAsk(b []byte) (*Ask, error) {
	r, err := versioned(b)
	if err != nil {
		return nil, err
	}
	a := &Ask{Head: region.ReadHead(&r), Cursor: r.Text(maxCursor)}
	if !r.Done() {
		return nil, region.ErrMessage
	}
	return a, nil
}

// EncodePage returns a page as bytes. It changes the order of buckets.
func EncodePage(p *Page) []byte {
	b := wire.AppendText([]byte{Version}, p.Next)
	for _, m := range p.Messages {
		for _, body := range Encode(m) {
			b = wire.AppendText(b, string(body))
		}
	}
	return b
}

// DecodePage reads a page that arrives at a time, ms since the epoch, as Decode does. The error wraps
// region.ErrMessage.
func DecodePage(b []byte, now int64) (*Page, error) {
	r, err := versioned(b)
	if err != nil {
		return nil, err
	}
	p, buckets := &Page{Next: r.Text(maxCursor)}, 0
	for r.Len() > 0 {
		m, err := Decode([]byte(r.Text(region.MaxMessage)), now)
		if err != nil {
			return nil, err
		}
		if buckets += len(m.Buckets); buckets > MaxBuckets {
			return nil, fmt.Errorf("%w: a page with more than %d buckets", region.ErrMessage, MaxBuckets)
		}
		p.Messages = append(p.Messages, m)
	}
	if !r.Done() {
		return nil, region.ErrMessage
	}
	return p, nil
}

// versioned reads what begins with the version.
func versioned(b []byte) (r wire.Reader, err error) {
	r = wire.Read(b)
	if v := r.Byte(); r.Failed() || v != Version {
		return r, fmt.Errorf("%w: version %d, and this node reads %d", region.ErrMessage, v, Version)
	}
	return r, nil
}
