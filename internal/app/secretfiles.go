package app

import (
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/secretfile"
	"sluice/limiter/redisstore"
)

// secretFiles are the files of secrets, by the settings that have one.
type secretFiles map[*config.Secret]*secretfile.File

// openSecretFiles reads the files of all secrets of the settings that cfg points to. The error is about the first that
// is not usable.
func openSecretFiles(cfg any, log *slog.Logger, now func() time.Time) (secretFiles, error) {
	files := secretFiles{}
	checks := map[string]func(inForce, value string) error{
		"DATABASE_URL": database.CheckURL, "REDIS_URL": redisstore.CheckURL}
	for _, s := range config.Secrets(cfg) {
		if s.File == "" {
			continue
		}
		file, err := secretfile.Open(secretfile.Options{Setting: s.FileNames(), Path: s.File, Check: checks[s.Env], Log: log,
			Now: now})
		if err != nil {
			return nil, err
		}
		files[s.Secret] = file
	}
	return files, nil
}

// publish adds a series for each file of the settings cfg.
func (f secretFiles) publish(cfg *config.Serve, metrics prometheus.Registerer) {
	for _, s := range config.Secrets(cfg) {
		if file := f[s.Secret]; file != nil {
			publishSecretFile(metrics, s.FileEnv(), file.Failing)
		}
	}
}

// publishSecretFile adds the series of the file of a setting. failing is called at each scrape.
func publishSecretFile(metrics prometheus.Registerer, setting string, failing func() bool) {
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_secret_file_failing",
		Help:        "1 while the file of the setting is not usable and an earlier secret stays in use, else 0.",
		ConstLabels: prometheus.Labels{"setting": setting},
	}, func() float64 { return oneIf(failing()) }))
}

// current returns a function that returns the value of a secret. file is the file of the secret, or nil.
func current(s config.Secret, file *secretfile.File) func() string {
	if file != nil {
		return file.Value
	}
	return func() string { return s.Value }
}

// databaseOptions returns the options of database.Open that locate the database. file is the file of the URL, or nil.
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
		return redisstore.NewClient(cfg.RedisURL.Value, opt)
	}
	opt.Current = file.Value
	return redisstore.NewClient(file.Value(), opt)
}
