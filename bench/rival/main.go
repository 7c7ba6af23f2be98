// Command rival serves POST /check in the ways to which sluice is compared: a constant answer,
// one script call for each request (naive), batches of counters (coalescer), and three libraries
// behind a few lines of Echo. It can also answer with the constant behind fasthttp, or ShouldRateLimit of
// Envoy. bench/load starts it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/labstack/echo/v4"
)

// question is the request of every rival.
type question struct {
	Key    string `json:"key"`
	Limit  int64  `json:"limit"`
	Window int64  `json:"window_ms"`
}

// answer is the response of every rival.
type answer struct {
	Allowed   bool  `json:"allowed"`
	Limit     int64 `json:"limit"`
	Remaining int64 `json:"remaining"`
	RetryMS   int64 `json:"retry_after_ms"`
	ResetMS   int64 `json:"reset_ms"`
}

// constantAnswer is an answer without a decision.
const constantAnswer = `{"allowed":true,"limit":1000000,"remaining":999999,"retry_after_ms":0,"reset_ms":60000}`

// decider is one way of deciding.
type decider func(ctx context.Context, q question) (answer, error)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	redisAddr := flag.String("redis", "", "address of Redis")
	grpcListen := flag.String("grpc", "127.0.0.1:0", "address for gRPC, of the kind constant-grpc")
	kind := flag.String("kind", "constant",
		"constant, constant-fasthttp, constant-grpc, naive, coalescer, redis_rate, throttled or go-limiter")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := serve(ctx, *listen, *grpcListen, *redisAddr, *kind)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rival:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, listen, grpcListen, redisAddr, kind string) error {
	if kind == "constant-fasthttp" {
		return serveFastHTTP(ctx, listen)
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	// The timeouts that every server on a network needs, as in sluice.
	e.Server.ReadHeaderTimeout, e.Server.ReadTimeout = 2*time.Second, 5*time.Second
	e.Server.WriteTimeout, e.Server.IdleTimeout = 5*time.Second, time.Minute
	e.GET("/readyz", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	switch kind {
	case "constant-grpc":
		stop, err := constantGRPC(ctx, grpcListen)
		if err != nil {
			return err
		}
		defer stop()
	case "constant":
		e.POST("/check", func(c echo.Context) error {
			if _, err := io.Copy(io.Discard, c.Request().Body); err != nil {
				return err
			}
			return c.JSONBlob(http.StatusOK, []byte(constantAnswer))
		})
	default:
		decide, err := newDecider(kind, redisAddr)
		if err != nil {
			return err
		}
		e.POST("/check", func(c echo.Context) error {
			var q question
			if err := json.NewDecoder(c.Request().Body).Decode(&q); err != nil {
				return echo.NewHTTPError(http.StatusBadRequest, err.Error())
			}
			a, err := decide(c.Request().Context(), q)
			if err != nil {
				return err
			}
			return c.JSON(http.StatusOK, a)
		})
	}
	go func() {
		<-ctx.Done()
		limit, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.Shutdown(limit) // the process ends in any case
	}()
	if err := e.Start(listen); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
