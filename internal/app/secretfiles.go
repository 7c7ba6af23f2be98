package app

import (
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/secretfile"
	"sluice/internal/telemetry"
	"sluice/limiter/redisstore"
)

// secretFiles are the files of a node with secrets. Those that are not set are nil.
type secretFiles struct {
	database, redis, oidc, kafka, region *secretfile.File
}

// openSecretFiles reads all files with secrets. The error is about the first that is not
// usable.
func openSecretFiles(cfg *config.Serve, host *Host) (f secretFiles, err error) {
	if f.database, err = openDatabaseFile(&cfg.Storage, host.Log, host.Now); err != nil {
		return f, err
	}
	if f.redis, err = openSecretFile(secretfile.Options{
		Setting: "--redis-url-file (REDIS_URL_FILE)", Path: cfg.RedisURLFile, Check: redisstore.CheckURL,
		Log: host.Log, Now: host.Now}); err != nil {
		return f, err
	}
	f.oidc, err = openSecretFile(secretfile.Options{
		Setting: "--oidc-client-secret-file (SLUICE_OIDC_CLIENT_SECRET_FILE)", Path: cfg.OIDCClientSecretFile,
		Log: host.Log, Now: host.Now})
	if err != nil {
		return f, err
	}
	f.kafka, err = openSecretFile(secretfile.Options{
		Setting: "--kafka-password-file (SLUICE_KAFKA_PASSWORD_FILE)", Path: cfg.KafkaPasswordFile,
		Log: host.Log, Now: host.Now})
	if err != nil {
		return f, err
	}
	f.region, err = openSecretFile(secretfile.Options{
		Setting: "--region-token-file (SLUICE_REGION_TOKEN_FILE)", Path: cfg.RegionTokenFile,
		Log: host.Log, Now: host.Now})
	return f, err
}

// openDatabaseFile reads the file with the URL of the rules database, if it is set.
func openDatabaseFile(cfg *config.Storage, log *slog.Logger, now func() time.Time) (*secretfile.File, error) {
	return openSecretFile(secretfile.Options{Setting: "--database-url-file (DATABASE_URL_FILE)", Path: cfg.DatabaseURLFile,
		Check: database.CheckURL, Log: log, Now: now})
}

func openSecretFile(opt secretfile.Options) (*secretfile.File, error) {
	if opt.Path == "" {
		return nil, nil //nolint:nilnil // it is an option
	}
	return secretfile.Open(opt)
}

// publish adds a series for each file.
func (f *secretFiles) publish(metrics *telemetry.Metrics) {
	for setting, file := range map[string]*secretfile.File{"DATABASE_URL_FILE": f.database, "REDIS_URL_FILE": f.redis,
		"SLUICE_OIDC_CLIENT_SECRET_FILE": f.oidc, "SLUICE_KAFKA_PASSWORD_FILE": f.kafka,
		"SLUICE_REGION_TOKEN_FILE": f.region} {
		if file != nil {
			metrics.SecretFile(setting, file.Failing)
		}
	}
}

// databaseOptions are the options of database.Open that say where the database is. file is that
// of openDatabaseFile.
func databaseOptions(cfg *config.Storage, file *secretfile.File) database.Options {
	opt := database.Options{DSN: cfg.Database(), PrimaryURL: strings.TrimSuffix(cfg.PrimaryURL, "/")}
	if file != nil {
		opt.DSN, opt.CurrentDSN = file.Value(), file.Value
	}
	return opt
}

// redisClient creates a client of the Redis of a node. The error never contains the
// password.
func redisClient(cfg *config.Serve, file *secretfile.File, opt redisstore.ClientOptions) (redis.UniversalClient,
	error) {
	if file == nil {
		return redisstore.NewClient(cfg.RedisURL, opt)
	}
	opt.Current = file.Value
	return redisstore.NewClient(file.Value(), opt)
}
