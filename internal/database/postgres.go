package database

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
)

// defaultMaxConns is the default size of the pool. A node needs few connections, because checks
// never use the database.
const defaultMaxConns = 10

// openPostgres creates the pool without connecting.
func (d *DB) openPostgres(opt Options) error {
	cfg, err := d.postgresConfig()
	if err != nil {
		return err
	}
	pool := stdlib.OpenDB(*cfg, stdlib.OptionBeforeConnect(d.useCurrentCredentials),
		stdlib.OptionAfterConnect(prepareSession))
	maxConns := opt.MaxConns
	if maxConns <= 0 {
		maxConns = defaultMaxConns
	}
	pool.SetMaxOpenConns(maxConns)
	pool.SetMaxIdleConns(min(maxConns, 4))
	d.writers = make(chan struct{}, max(1, maxConns/2))
	pool.SetConnMaxLifetime(30 * time.Minute)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	d.write, err = wrapPool(postgres.New(postgres.Config{Conn: pool}))
	d.read = d.write
	return err
}

// postgresConfig parses the DSN and bounds connecting, so that a host that drops packets is
// noticed within a call's deadline.
func (d *DB) postgresConfig() (*pgx.ConnConfig, error) {
	cfg, err := parsePostgres(d.dsn)
	if err != nil {
		return nil, err
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = d.callTimeout
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "sluice"
	}
	return cfg, nil
}

// useCurrentCredentials sets the current user and password in the configuration of a new connection.
func (d *DB) useCurrentCredentials(_ context.Context, cfg *pgx.ConnConfig) error {
	if d.currentDSN == nil {
		return nil
	}
	current, err := parsePostgres(d.currentDSN())
	if err != nil {
		return err
	}
	cfg.User, cfg.Password = current.User, current.Password
	return nil
}

// idleTransaction is how long a transaction may wait for its node. The server ends the transaction of a node that
// stopped in the middle: it would hold the row of versions and block every other writer.
const idleTransaction = 10 * time.Second

func prepareSession(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("SET idle_in_transaction_session_timeout = %d", idleTransaction.Milliseconds()))
	return err
}
