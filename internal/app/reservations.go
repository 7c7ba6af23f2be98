package app

import (
	"context"

	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/fleet"
	"sluice/internal/secretfile"
	"sluice/limiter/redisstore"
)

// openConnections is how many calls to the list a node makes at once. Changes are sent in batches; each settlement by
// the id of its reserve needs a separate call.
const openConnections = 64

// openReservations opens the list of open reservations: in Redis, shared by all nodes that share its counters, or in
// memory if the counters are. url is the file with the URL of Redis, or nil.
func openReservations(cfg *config.Serve, host *Host, url *secretfile.File, stops *stops) (*decide.OpenReservations,
	error) {
	gaveUp := func(n int, err error) {
		host.Log.Error("expired reservations stay charged, because each settlement of them failed", "reservations", n,
			"error", err)
	}
	if !cfg.Redis() {
		return decide.NewOpenReservations(decide.NewReservationList(host.Now), gaveUp), nil
	}
	client, err := redisClient(cfg, url, redisstore.ClientOptions{PoolSize: openConnections})
	if err != nil {
		return nil, err // names REDIS_URL, never its password
	}
	stops.add("Redis client of open reservations", func(context.Context) error { return client.Close() })
	list, err := fleet.NewReservations(fleet.ReservationOptions{Client: client, Prefix: cfg.KeyPrefix})
	if err != nil {
		return nil, err
	}
	return decide.NewOpenReservations(list, gaveUp), nil
}
