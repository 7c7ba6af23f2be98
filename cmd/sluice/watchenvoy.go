package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"sluice/api/client"
	"sluice/internal/tick"
	"sluice/rules/chars"
	"sluice/rules/envoyfile"
)

// watchInterval is how often files are read.
var watchInterval = time.Second // shorter in tests

// longestPause is the longest time between two tries to reach the server, in intervals.
const longestPause = 32

// watching imports files again when they have changed.
type watching struct {
	cmd    *rulesImportEnvoyCmd
	server *client.Client
	// seen is the hash of the content at the last look, done the hash of the content that was imported or refused, and
	// told the last message.
	seen, done [sha256.Size]byte
	told       string
	// unreadable: the files could not be read at the last look.
	unreadable bool
	// pause is the number of intervals to wait after a failure of the server, waited how many have passed.
	pause, waited int
}

// watch imports the files at once and again after each change, until the context ends.
func (c *rulesImportEnvoyCmd) watch(p *process, server *client.Client) error {
	w := watching{cmd: c, server: server}
	w.look(p)
	for range tick.Every(p.ctx, watchInterval) {
		w.look(p)
	}
	return nil
}

// look imports the files if their content differs from the last import and has not changed since the last look. While
// files are being written, they can be incomplete and valid: an import would delete the rules that are not written yet.
func (w *watching) look(p *process) {
	if w.waited < w.pause {
		w.waited++
		return
	}
	files, err := w.cmd.read(p)
	if err != nil {
		w.tell(p, err)
		w.unreadable = true
		return
	}
	if w.unreadable {
		w.tell(p, errors.New("the files can be read again"))
		w.unreadable = false
	}
	content := contentOf(files)
	last := w.seen
	if w.seen = content; content == w.done || content != last {
		return
	}
	err = w.cmd.send(p, w.server, files)
	if err == nil {
		w.told = ""
	}
	if err == nil || isFinal(err) {
		w.done, w.pause = content, 0
	} else {
		w.pause = min(max(1, 2*w.pause), longestPause)
	}
	w.waited = 0
	if err != nil && p.ctx.Err() == nil {
		w.tell(p, err)
	}
}

// tell prints an error, once until it changes.
func (w *watching) tell(p *process, err error) {
	if text := err.Error(); text != w.told {
		w.told = text
		fmt.Fprintf(p.errs, "%s %s\n", p.now().UTC().Format(time.RFC3339), chars.ShownLines(text))
	}
}

// isFinal reports whether the same files would fail again.
func isFinal(err error) bool {
	var invalid *invalidFilesError
	var refused *client.Problem
	if errors.As(err, &invalid) {
		return true
	}
	return errors.As(err, &refused) && (refused.Status == http.StatusUnprocessableEntity ||
		refused.Status == http.StatusRequestEntityTooLarge || refused.Status == http.StatusBadRequest)
}

// contentOf is a hash of files.
func contentOf(files []envoyfile.Source) [sha256.Size]byte {
	return sha256.Sum256(envoyfile.Join(files))
}
