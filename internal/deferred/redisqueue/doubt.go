package redisqueue

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"sluice/limiter/redisstore"
)

// doubt is set if any attempt of a call may have reached a server although its answer did not come. A cluster client
// makes several, and its error is that of the last one.
type doubt struct{ atomic.Bool }

type doubtKey struct{}

// watched returns a context whose calls set d.
func (d *doubt) watched(ctx context.Context) context.Context {
	return context.WithValue(ctx, doubtKey{}, d)
}

// watch makes the calls of a client set the doubt of their context.
func watch(client redis.UniversalClient) {
	if c, ok := client.(*redis.ClusterClient); ok {
		c.OnNewNode(func(node *redis.Client) { node.AddHook(attempts{}) })
		return
	}
	client.AddHook(attempts{})
}

// attempts sees each attempt of a call at one server.
type attempts struct{}

// DialHook changes nothing.
func (attempts) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing: no Put is in a pipeline.
func (attempts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook sets the doubt of an attempt.
func (attempts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		d, ok := ctx.Value(doubtKey{}).(*doubt)
		if ok && err != nil && !redis.HasErrorPrefix(err, "NOSCRIPT") && redisstore.Classify(err).Unknown {
			d.Store(true)
		}
		return err
	}
}
