package web

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/heap"
)

// Time for an import, instead of what other requests have.
const (
	importSend   = time.Minute
	importAnswer = 10 * time.Minute
)

// errImporting refuses a second large file.
var errImporting = &problem{
	http.StatusServiceUnavailable, "Another import is running",
	"Another large file is being imported on this node. Nothing was changed. Try again when that is done.",
}

// importFile is the file of an import as it was sent.
type importFile struct {
	text string
	// upload is its id if it waits on this node, "" if the page carries it.
	upload string
	// pasted: it came from the page and not from a file.
	pasted bool
	form   url.Values
	done   func()
}

// shown is the text for the page, empty for a file that is not carried.
func (f *importFile) shown() string {
	if f.upload != "" && !f.pasted {
		return ""
	}
	return f.text
}

// importFile reads the form of an import: the file that waits on this node, a file
// that was chosen, or what was pasted in the field named by text. Call done in any
// case but when it is nil.
func (s *Server) importFile(v *visit, text string) (*importFile, error) {
	r := v.Request()
	f := &importFile{form: url.Values{}, done: func() {}}
	if r.ContentLength < 0 || r.ContentLength > maxCarried {
		if !s.uploads.busy.TryLock() {
			return nil, errImporting
		}
		f.done = s.uploads.busy.Unlock
	}
	control, now := http.NewResponseController(v.Response()), time.Now() //nolint:forbidigo // sockets go by the machine's clock
	if r.PostForm == nil {
		// Once the body has arrived, net/http waits for the caller to leave: a deadline
		// for reading would then end the work itself.
		_ = control.SetReadDeadline(now.Add(importSend)) // tests have no connection to set it on
	}
	_ = control.SetWriteDeadline(now.Add(importAnswer))
	err := f.read(v, text)
	if id := f.form.Get("upload"); err == nil && f.text == "" && id != "" {
		f.upload = id
		if f.text, err = s.uploads.get(v.user.ID, id); err != nil {
			f.upload = ""
		}
	} else if err == nil && len(f.text) > maxCarried {
		f.upload, err = s.uploads.put(v.user.ID, f.text)
	}
	if err != nil {
		f.done()
		f.done = func() {}
		return f, err
	}
	if len(f.text) > maxCarried {
		release, unbound := f.done, heap.Bound(heap.Import)
		f.done = func() {
			unbound()
			release()
		}
	}
	return f, nil
}

func (f *importFile) read(v *visit, text string) (err error) {
	r := v.Request()
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "multipart/form-data" {
		form, err := v.form()
		if err == nil {
			f.form, f.text = form, unix(form.Get(text))
			f.pasted = f.text != ""
		}
		return err
	}
	if err := r.ParseMultipartForm(maxCarried); err != nil {
		return formError(err, v.route.Body)
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }()
	f.form = r.PostForm
	f.text = unix(f.form.Get(text))
	f.pasted = f.text != ""
	file, head, err := r.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) {
		return nil
	}
	if err != nil {
		return formError(err, v.route.Body)
	}
	defer file.Close()
	if head.Size == 0 {
		return nil
	}
	var b strings.Builder
	b.Grow(int(head.Size))
	if _, err := io.Copy(&b, file); err != nil {
		return err
	}
	f.text, f.pasted = unix(b.String()), false
	return nil
}

// unix undoes the line ends that browsers send.
func unix(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }
