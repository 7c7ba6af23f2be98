package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/records"
	"sluice/internal/records/kafkasink"
	"sluice/internal/secretfile"
	"sluice/internal/tick"
)

// errRecordsInUse means that another server writes the decision log in this directory.
var errRecordsInUse = errors.New("another sluice serve writes its decision log here; choose another directory with " +
	"--data-dir (SLUICE_DATA_DIR)")

// decisionLog is the log of a sink.
type decisionLog struct {
	*records.Log
	sink    string
	account *records.Account
}

// openDecisionLogs opens the decision logs of this node: in files, in Kafka, both or none. Each has its own buffer and
// account, so that one sink that stands still takes nothing from the other.
func openDecisionLogs(cfg *config.Serve, host *Host, db *database.DB, password *secretfile.File,
	metrics prometheus.Registerer, node string, stops *stops) (logs []decisionLog, err error) {
	key := &recordKey{}
	open := func(name string, sink func(*records.Account) (records.Sink, error)) error {
		account := &records.Account{}
		to, err := sink(account)
		if err != nil {
			return err
		}
		log, err := records.New(records.Options{Sink: to, Account: account, Rate: cfg.LogRate,
			WholeWhileQuiet: cfg.Embedded(), Address: cfg.LogClientIP,
			Network: cfg.Options().Network, Omit: cfg.LogOmit, Secret: key.get, Node: node,
			Now: host.Now})
		if err != nil {
			return errors.Join(err, to.Close(context.Background()))
		}
		stops.add("decision log in "+name, func(ctx context.Context) error {
			return closeDecisionLog(ctx, log, name, account, host.Log)
		})
		log.Register(metrics, name)
		logs = append(logs, decisionLog{log, name, account})
		return nil
	}
	if cfg.RecordsToFile() {
		if err := open(config.DecisionLogFile, func(account *records.Account) (records.Sink, error) {
			return openRecordFiles(cfg, host, account, stops)
		}); err != nil {
			return nil, err
		}
	}
	if cfg.RecordsToKafka() {
		if err := open(config.DecisionLogKafka, func(account *records.Account) (records.Sink, error) {
			return openKafka(&cfg.Kafka, host, password, account)
		}); err != nil {
			return nil, err
		}
	}
	if len(logs) > 0 {
		stops.add("key of the decision log",
			task(func(ctx context.Context) { key.find(ctx, db, cfg.PollInterval, host.Log) }))
	}
	return logs, nil
}

// leastFlush is the shortest time for writing buffered events, even if requests took the whole drain timeout.
const leastFlush = time.Second

// untilDrained returns a context that ends with the drain timeout. wait is the context of the shutdown.
func untilDrained(wait context.Context) (context.Context, context.CancelFunc) {
	end, ok := wait.Deadline()
	if !ok {
		return context.WithCancel(wait)
	}
	drained := end.Add(-stopTimeout)
	if least := time.Now().Add(leastFlush); drained.Before(least) { // deadlines are by the clock of the machine
		drained = least
	}
	return context.WithDeadline(wait, drained)
}

// closeDecisionLog writes the buffered events until the drain timeout ends, and logs the totals, because the node no
// longer answers requests for them. Later stops, such as the last snapshot of the counters, need the rest of wait.
func closeDecisionLog(wait context.Context, log *records.Log, sink string, account *records.Account, to *slog.Logger,
) error {
	ctx, cancel := untilDrained(wait)
	defer cancel()
	err := log.Close(ctx)
	t := account.Totals()
	to.Info("the decision log is closed", "sink", sink, "produced", t.Produced, "delivered", t.Delivered,
		"dropped", t.Dropped, "doubtful", t.Doubtful)
	return err
}

// accountsOf are the accounts of logs, by sink.
func accountsOf(logs []decisionLog) map[string]func() records.Totals {
	out := map[string]func() records.Totals{}
	for _, log := range logs {
		out[log.sink] = log.Totals
	}
	return out
}

// openRecordFiles opens the files of the decision log, which no other process writes.
func openRecordFiles(cfg *config.Serve, host *Host, account *records.Account, stops *stops) (records.Sink, error) {
	const setting = "--data-dir (SLUICE_DATA_DIR)"
	dir := cfg.RecordsDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	unlock, err := lockDir(dir, setting, errRecordsInUse)
	if err != nil {
		return nil, err
	}
	stops.add("decision log lock", func(context.Context) error { return unlock() })
	files, err := records.OpenFiles(records.FileOptions{Dir: dir, MaxBytes: int64(cfg.MaxLogBytes), Account: account,
		Now: host.Now, Log: host.Log, Trouble: host.trouble})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return files, nil
}

// openKafka opens the topic of the decision log. It does not wait for a broker.
func openKafka(cfg *config.Kafka, host *Host, password *secretfile.File, account *records.Account) (records.Sink,
	error) {
	connection, err := kafkaConnection(cfg, password)
	if err != nil {
		return nil, err
	}
	return kafkasink.Open(kafkasink.Options{Connection: connection, Compression: cfg.KafkaCompression, Account: account,
		Log: host.Log, Now: host.Now, Trouble: host.trouble})
}

// kafkaConnection is the connection to the topic of the decision log.
func kafkaConnection(cfg *config.Kafka, password *secretfile.File) (kafkasink.Connection, error) {
	connection, err := connectionTo(&cfg.KafkaConnection, password)
	connection.Brokers, connection.Topic = cfg.KafkaBrokers, cfg.KafkaTopic
	return connection, err
}

// KafkaConnection is the connection that the settings of a command describe, without its brokers and its topic.
func KafkaConnection(cfg *config.KafkaConnection) (kafkasink.Connection, error) {
	if err := cfg.Check(); err != nil {
		return kafkasink.Connection{}, err
	}
	files, err := openSecretFiles(cfg, nil, time.Now)
	if err != nil {
		return kafkasink.Connection{}, err
	}
	return connectionTo(cfg, files[&cfg.KafkaPassword])
}

// connectionTo is the connection that checked settings describe. password is the file with the password, or nil.
func connectionTo(cfg *config.KafkaConnection, password *secretfile.File) (kafkasink.Connection, error) {
	out := kafkasink.Connection{SASL: cfg.KafkaSASL, User: cfg.KafkaUser, Password: current(cfg.KafkaPassword, password)}
	if cfg.KafkaTLS {
		out.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.KafkaCAFile != "" {
		const setting = "--kafka-ca-file (SLUICE_KAFKA_CA_FILE)"
		pem, err := os.ReadFile(cfg.KafkaCAFile)
		if err != nil {
			return out, fmt.Errorf("%s: %w", setting, err)
		}
		out.TLS.RootCAs = x509.NewCertPool()
		if !out.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return out, fmt.Errorf("%s: %s has no certificate in PEM form", setting, cfg.KafkaCAFile)
		}
	}
	return out, nil
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
		if !tick.Wait(ctx, every) {
			return
		}
	}
}
