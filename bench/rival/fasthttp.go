package main

import (
	"context"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

// serveFastHTTP answers every request with the constant, read by fasthttp instead of net/http, until ctx ends.
// GET /readyz gets it too.
func serveFastHTTP(ctx context.Context, listen string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	s := fasthttp.Server{
		Handler: func(c *fasthttp.RequestCtx) {
			c.SetContentType("application/json")
			c.SetBodyString(constantAnswer)
		},
		// As behind Echo.
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute,
	}
	stopped := context.AfterFunc(ctx, func() { _ = s.Shutdown() }) // the process ends in any case
	defer stopped()
	return s.Serve(l)
}
