package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/records"
	"sluice/internal/telemetry"
)

// errRecordsInUse means that another server writes the decision log in this directory.
var errRecordsInUse = errors.New("another sluice serve writes its decision log here; choose another directory with " +
	"--decision-log-dir (SLUICE_DECISION_LOG_DIR)")

// openDecisionLog opens the decision log of this node in files.
func openDecisionLog(cfg *config.Serve, host *Host, db *database.DB, metrics *telemetry.Metrics, node string,
	stops *stops) (*records.Log, error) {
	const setting = "--decision-log-dir (SLUICE_DECISION_LOG_DIR)"
	dir := cfg.RecordsDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	unlock, err := lockDir(dir, setting, errRecordsInUse)
	if err != nil {
		return nil, err
	}
	stops.add("decision log lock", func(context.Context) error { return unlock() })
	account := &records.Account{}
	files, err := records.OpenFiles(records.FileOptions{Dir: dir, MaxBytes: int64(cfg.MaxLogBytes), Account: account,
		Now: host.Now, Log: host.Log})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	key := &recordKey{}
	stops.add("key of the decision log", task(func(ctx context.Context) { key.find(ctx, db, cfg.PollInterval, host.Log) }))
	log, err := records.New(records.Options{Sink: files, Account: account, Rate: cfg.LogRate, Address: cfg.LogClientIP,
		Omit: cfg.LogOmit, Secret: key.get, Node: node, Now: host.Now})
	if err != nil {
		return nil, errors.Join(err, files.Close(context.Background()))
	}
	stops.add("decision log", log.Close)
	metrics.DecisionLog(config.DecisionLogFile, account.Totals, log.Age)
	return log, nil
}

// recordKey is the key of the hashes of the decision log, once it is known. It is safe for concurrent use.
type recordKey struct{ key atomic.Pointer[[]byte] }

// get returns the key, nil while it is unknown.
func (k *recordKey) get() []byte {
	if key := k.key.Load(); key != nil {
		return *key
	}
	return nil
}

// find asks the rules database for the key until it answers.
func (k *recordKey) find(ctx context.Context, db *database.DB, every time.Duration, log *slog.Logger) {
	for reported := false; ; {
		key, err := db.RecordKey(ctx)
		switch {
		case err == nil:
			k.key.Store(&key)
			return
		case !reported && ctx.Err() == nil:
			log.Warn("the decision log hides credentials instead of hashing them until the rules database answers", "error", err)
			reported = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
	}
}
