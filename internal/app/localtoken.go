package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/localtoken"
)

// localToken is the secret that this run accepts while no token exists, and its file. The reloader calls follow and
// keep; close is called after the reloader has ended. The zero value accepts no secret and has no file.
type localToken struct {
	dir    string // the data directory; "" without one
	secret string // "" if client certificates end the open mode
	hash   [32]byte
	log    *slog.Logger

	written, warned bool
	accepted        bool // no token exists, and the log says so
	decided         bool // a file of an earlier run was replaced or removed
}

// newLocalToken creates a secret for this run. It is in no file yet.
func newLocalToken(cfg *config.Serve, log *slog.Logger) *localToken {
	l := &localToken{dir: cfg.DataDir, log: log}
	if absolute, err := filepath.Abs(cfg.DataDir); err == nil {
		l.dir = absolute
	}
	if cfg.Loopback() && cfg.TLSClientScopes == "" {
		l.secret, l.hash = access.NewSecret()
	}
	return l
}

// follow returns the keyring to put in force for ring: with the local secret while no token exists. The file exists
// before the secret is in force.
func (l *localToken) follow(ring *access.Keyring) *access.Keyring {
	if !l.open(ring) {
		return ring
	}
	if !l.accepted {
		l.log.Warn("no token exists: this node answers checks without a token, and a proxy on this machine opens them to " +
			"its clients; create one with sluice token create")
	}
	l.accepted, l.decided = true, true
	if !l.written {
		l.write()
	}
	return ring.WithLocal(l.hash)
}

// keep is called after each pass with the keyring in force. It writes the file again if another server on this data
// directory has removed its own. After the first token, it removes the file, and replaces the secret: should the
// database lose its tokens, a secret that has ended does not become valid again.
func (l *localToken) keep(ring *access.Keyring) {
	switch {
	case l.dir == "" || ring == nil:
	case l.open(ring):
		// A removed directory is not created again: it held other files too, and their owners report that they are
		// missing.
		if _, err := os.Stat(l.dir); localtoken.Missing(l.dir) && (err == nil || !l.written) {
			l.write()
		}
	case l.accepted:
		l.log.Info("the first token exists: the local token is not valid any more")
		l.remove()
		l.accepted = false
		l.secret, l.hash = access.NewSecret()
	case !l.decided: // a killed server may have left one
		l.decided = true
		if err := localtoken.Discard(l.dir); err != nil {
			l.log.Warn("removing the local token of an earlier run failed", "file", localtoken.Path(l.dir), "error", err)
		}
	}
}

// write writes the file, and logs the first failure.
func (l *localToken) write() {
	err := localtoken.Write(l.dir, l.secret)
	if l.written = err == nil; l.written || l.warned {
		return
	}
	l.warned = true
	l.log.Warn("writing the local token failed; calls other than checks need a token of sluice token create",
		"file", localtoken.Path(l.dir), "error", err)
}

func (l *localToken) remove() {
	if !l.written {
		return
	}
	l.written = false
	if err := localtoken.Remove(l.dir, l.secret); err != nil {
		l.log.Warn("removing the local token failed", "file", localtoken.Path(l.dir), "error", err)
	}
}

// close removes the file.
func (l *localToken) close(context.Context) error {
	l.remove()
	return nil
}

// open reports whether ring is one that the local secret belongs to.
func (l *localToken) open(ring *access.Keyring) bool { return l.secret != "" && ring.Open() }

// file returns the path of the file, or "" if there is none. It must not be called while the reloader runs.
func (l *localToken) file() string {
	if !l.written {
		return ""
	}
	return localtoken.Path(l.dir)
}
