package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"sluice/internal/trouble"
)

// Deadlines of one call, on top of what the caller's context allows.
const (
	// defaultCallTimeout bounds reads and single changes. It is below the two seconds within which
	// a write must be answered during an outage, with room for a busy machine.
	defaultCallTimeout = 1500 * time.Millisecond
	// loadTimeout bounds reading every token, and the time that a read of rules or overrides may
	// pass without a new row.
	loadTimeout = 15 * time.Second
	// migrateTimeout bounds waiting for the migration lock and migrating.
	migrateTimeout = 2 * time.Minute
)

// sqliteName is the file name inside Options.DataDir.
const sqliteName = "rules.db"

// Options locates the rules database. DSN or DataDir is required.
type Options struct {
	// DSN is postgres://… (or postgresql://…), or the path of an SQLite file.
	// Empty means the file rules.db in DataDir.
	DSN string
	// CurrentDSN returns the Postgres URL whose user and password new connections use. It passes CheckURL
	// with DSN. Nil: they never change. It is called concurrently.
	CurrentDSN func() string
	// DataDir is a folder, created if missing; used only without DSN.
	DataDir string
	// MaxConns bounds open connections to Postgres; 0 means 10.
	MaxConns int
	// CallTimeout bounds reads and single changes, after which they return rules.ErrUnavailable; 0
	// means 1.5 s. Loading everything and migrating have longer bounds.
	CallTimeout time.Duration
	// Now is the wall clock for created_at and similar times; nil means time.Now.
	Now func() time.Time
	// PrimaryURL is where changes are made while the database is a read replica; empty if unknown.
	PrimaryURL string
	// SignOnIssuer is the provider of single sign-on, empty for none. Administrators of other
	// providers do not count as able to sign in.
	SignOnIssuer string
	// Log receives background events, such as a lost LISTEN connection; nil disables logging.
	Log *slog.Logger
	// Trouble receives the troubles of the database; it may be nil.
	Trouble *trouble.Registry
	// Trace makes spans of changes and statements; nil makes none.
	Trace Trace
}

// DB is the rules database. It is safe for concurrent use. Call Close at the end.
type DB struct {
	dialect dialect
	// write and read are one pool on Postgres. On SQLite write is a single connection, and read is
	// read-only.
	write, read *gorm.DB
	now         func() time.Time
	log         *slog.Logger
	trouble     *trouble.Registry
	dsn         string // or the path of the SQLite file
	currentDSN  func() string
	callTimeout time.Duration
	// writers bounds the concurrent changes. One writes and the others wait for it, each with a
	// connection; some connections must remain for reads.
	writers chan struct{}
	// signOnIssuer, primaryURL and trace are as in Options.
	signOnIssuer, primaryURL string
	trace                    Trace
	// replica is true if the database last reported that it is a read replica.
	replica atomic.Bool
	// loggedReplica is the last logged value of replica.
	loggedReplica atomic.Bool

	// stop ends the listeners, which listeners counts; mu prevents a new one from starting while
	// Close waits.
	mu        sync.Mutex
	stop      context.CancelFunc
	stopped   context.Context
	listeners sync.WaitGroup

	disk disk
}

// dialect is the SQL dialect of a database.
type dialect string

const (
	dialectPostgres dialect = "postgres"
	dialectSQLite   dialect = "sqlite"
)

// Open prepares the database. It does not contact a Postgres server before the first call: it
// fails only for a DSN that cannot be parsed, and an unreachable server shows as
// rules.ErrUnavailable from Migrate. An SQLite file is created, readable only by its owner, and
// opened immediately.
func Open(ctx context.Context, opt Options) (*DB, error) {
	d := &DB{dialect: dialectSQLite, dsn: opt.DSN, now: opt.Now, log: opt.Log, trouble: opt.Trouble,
		callTimeout: opt.CallTimeout,
		currentDSN:  opt.CurrentDSN, signOnIssuer: opt.SignOnIssuer, primaryURL: opt.PrimaryURL, trace: opt.Trace}
	if d.callTimeout <= 0 {
		d.callTimeout = defaultCallTimeout
	}
	if d.now == nil {
		d.now = time.Now //nolint:forbidigo // the default of the clock seam: callers are wiring
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.disk.attempt, d.disk.retry = d.tryDisk, diskRetry
	d.stopped, d.stop = context.WithCancel(context.Background())

	var err error
	switch {
	case IsPostgres(opt.DSN):
		d.dialect = dialectPostgres
		err = d.openPostgres(opt)
	case strings.Contains(opt.DSN, "://"):
		err = errors.New("the database must be postgres://… or the path of an SQLite file")
	case opt.DSN != "":
		err = d.openSQLite(ctx, opt.DSN)
	case opt.DataDir != "":
		d.dsn = filepath.Join(opt.DataDir, sqliteName)
		err = d.openSQLite(ctx, d.dsn)
	default:
		err = errors.New("no database is configured")
	}
	if err == nil {
		err = d.traceStatements()
	}
	if err != nil {
		d.stop()
		return nil, fmt.Errorf("open the rules database: %w", err)
	}
	return d, nil
}

// IsPostgres reports whether a DSN names a Postgres server rather than a file.
func IsPostgres(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// Close ends the listeners and closes every connection. It waits for both.
func (d *DB) Close() error {
	d.mu.Lock()
	d.stop()
	d.mu.Unlock()
	d.listeners.Wait()
	errs := []error{closePool(d.write)}
	if d.read != d.write {
		errs = append(errs, closePool(d.read))
	}
	return errors.Join(errs...)
}

func closePool(g *gorm.DB) error {
	if g == nil {
		return nil
	}
	pool, err := g.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// wrapPool opens gorm on a pool. It logs nothing (statements contain what people typed), opens no transactions
// implicitly and names every column, so that a node still works while a newer version adds columns.
func wrapPool(dial gorm.Dialector) (*gorm.DB, error) {
	return gorm.Open(dial, &gorm.Config{
		Logger:                 logger.Discard,
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		QueryFields:            true,
	})
}

// rowTimeNow is the time written in rows.
func (d *DB) rowTimeNow() rowTime { return newRowTime(d.now()) }

// readIn runs fn on the read pool within a deadline and classifies its error.
func (d *DB) readIn(ctx context.Context, timeout time.Duration, fn func(tx *gorm.DB) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return d.classify(ctx, fn(d.read.WithContext(limited)))
}

// snapshot runs fn in a read transaction that sees one moment.
func (d *DB) snapshot(ctx context.Context, timeout time.Duration, fn func(tx *gorm.DB) error) error {
	return d.readIn(ctx, timeout, inSnapshot(fn))
}

func inSnapshot(fn func(tx *gorm.DB) error) func(tx *gorm.DB) error {
	return func(tx *gorm.DB) error {
		return tx.Transaction(fn, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	}
}

// errNoProgress ends a long read that receives no more rows.
var errNoProgress = fmt.Errorf("the database sent nothing for %s", loadTimeout)

// longSnapshot is snapshot for long reads. Its deadline moves while rows arrive: a read that
// restarted from its first row each time would never finish on a slow machine or network. fn calls
// progress with each row.
func (d *DB) longSnapshot(ctx context.Context, fn func(tx *gorm.DB, progress func()) error) error {
	limited, progress, end := whileProgress(ctx, loadTimeout)
	defer end()
	err := inSnapshot(func(tx *gorm.DB) error { return fn(tx, progress) })(d.read.WithContext(limited))
	if err != nil && errors.Is(context.Cause(limited), errNoProgress) {
		err = unavailable(errNoProgress)
	}
	return d.classify(ctx, err)
}

// whileProgress returns a context that ends if progress is not called for idle. end releases its
// resources.
func whileProgress(ctx context.Context, idle time.Duration) (limited context.Context, progress, end func()) {
	limited, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(idle, func() { cancel(errNoProgress) })
	return limited, func() { timer.Reset(idle) }, func() {
		timer.Stop()
		cancel(nil)
	}
}
