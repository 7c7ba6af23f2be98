package transfer

import (
	"net/http"
	"time"

	"sluice/internal/heap"
	"sluice/web/kit"
)

// Timeouts of an import, instead of those of other requests.
const (
	importSend   = time.Minute
	importAnswer = 10 * time.Minute
)

// errImporting rejects a second large file.
var errImporting = &kit.Problem{
	Status: http.StatusServiceUnavailable, Title: "Another import is running",
	Detail: "Another large file is being imported on this node. Nothing was changed. Try again when the other import " +
		"is done.",
}

// importFile is the uploaded file of an import.
type importFile struct {
	kit.File
	// upload is its ID if it is stored on this node, "" if the page carries it.
	upload string
	done   func()
}

// shown is the text for the page, empty for a file that is not carried.
func (f *importFile) shown() string {
	if f.upload != "" && !f.Pasted {
		return ""
	}
	return f.Text
}

// importFile reads the form of an import: the file stored on this node, a chosen file, or pasted text. If the result is
// not nil, call its done.
func (p *Pages) importFile(v *kit.Visit) (*importFile, error) {
	r := v.Request()
	f := &importFile{done: func() {}}
	if r.ContentLength < 0 || r.ContentLength > kit.MaxCarried {
		if !p.uploads.busy.TryLock() {
			return nil, errImporting
		}
		f.done = p.uploads.busy.Unlock
	}
	control, now := http.NewResponseController(v.Response()),
		time.Now() //nolint:forbidigo // sockets go by the machine's clock
	if r.PostForm == nil {
		// After the body has arrived, net/http watches for the client to disconnect. A read deadline would then cancel the
		// work.
		_ = control.SetReadDeadline(now.Add(importSend)) // tests have no connection to set it on
	}
	_ = control.SetWriteDeadline(now.Add(importAnswer))
	var err error
	f.File, err = v.File()
	if id := f.Form.Get("upload"); err == nil && f.Text == "" && id != "" {
		f.upload = id
		if f.Text, err = p.uploads.get(p.Now(), v.User.ID, id); err != nil {
			f.upload = ""
		}
	} else if err == nil && len(f.Text) > kit.MaxCarried {
		f.upload, err = p.uploads.put(p.Now(), v.User.ID, f.Text)
	}
	if err != nil {
		f.done()
		f.done = func() {}
		return f, err
	}
	if len(f.Text) > kit.MaxCarried {
		release, unbound := f.done, heap.Bound(heap.Import)
		f.done = func() {
			unbound()
			release()
		}
	}
	return f, nil
}
