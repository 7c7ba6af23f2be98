package transfer

import (
	"net/http"
	"time"

	"sluice/internal/heap"
	"sluice/web/kit"
)

// Time for an import, instead of what other requests have.
const (
	importSend   = time.Minute
	importAnswer = 10 * time.Minute
)

// errImporting refuses a second large file.
var errImporting = &kit.Problem{
	Status: http.StatusServiceUnavailable, Title: "Another import is running",
	Detail: "Another large file is being imported on this node. Nothing was changed. Try again when the other import is done.",
}

// importFile is the file of an import as it was sent.
type importFile struct {
	kit.File
	// upload is its id if it waits on this node, "" if the page carries it.
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

// importFile reads the form of an import: the file that waits on this node, a file
// that was chosen, or what was pasted. Call done in any case but when it is nil.
func (p *Pages) importFile(v *kit.Visit) (*importFile, error) {
	r := v.Request()
	f := &importFile{done: func() {}}
	if r.ContentLength < 0 || r.ContentLength > kit.MaxCarried {
		if !p.uploads.busy.TryLock() {
			return nil, errImporting
		}
		f.done = p.uploads.busy.Unlock
	}
	control, now := http.NewResponseController(v.Response()), time.Now() //nolint:forbidigo // sockets go by the machine's clock
	if r.PostForm == nil {
		// Once the body has arrived, net/http waits for the caller to leave: a deadline
		// for reading would then end the work itself.
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
