package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9" //nolint:depguard // the naive yardstick is what one writes without a store
)

// peer serves one of the yardsticks by itself, in a process that this command
// starts, until it is killed:
//
//	constant  reads the body and answers with a constant of the usual length:
//	          what Echo and net/http cost without any check
//	naive     what is written first: encoding/json, one EVALSHA a request over
//	          a plain connection pool
func peer(kind, addr, redisURL string) error {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.GET("/readyz", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	switch kind {
	case "constant":
		e.POST("/ratelimit/check", constant)
	case "naive":
		opt, err := redis.ParseURL(redisURL)
		if err != nil {
			return err
		}
		n := naive{redis.NewClient(opt), redis.NewScript(naiveLua)}
		e.POST("/ratelimit/check", n.check)
	default:
		return fmt.Errorf("no peer %q", kind)
	}
	s := &http.Server{
		Addr: addr, Handler: e,
		ReadHeaderTimeout: 2 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute,
	}
	return s.ListenAndServe()
}

// answer is one that sluice gives where one rule applies.
const answer = `{"allowed":true,"status":200,"limit":1000000,"remaining":999987,"reset_ms":104211,"retry_after_ms":0,"retry_after_s":0,"delay_ms":0,` +
	`"degraded":null,"rule":"per-user","limits":[{"rule":"per-user","key":"user:u1234","allowed":true,"limit":1000000,"remaining":999987,"reset_ms":104211,` +
	`"retry_after_ms":0,"mode":"enforce"}],"headers":{"RateLimit-Policy":"\"per-user\";q=1000000;w=60","RateLimit":"\"per-user\";r=999987;t=105",` +
	`"X-RateLimit-Limit":"1000000","X-RateLimit-Remaining":"999987","X-RateLimit-Reset":"1770000000"}}` + "\n"

func constant(c echo.Context) error {
	if _, err := io.Copy(io.Discard, c.Request().Body); err != nil {
		return err
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, []byte(answer))
}

type naive struct {
	client *redis.Client
	script *redis.Script
}

// naiveLua is a two-counter sliding window in its plain form.
const naiveLua = `
local limit, window, weight = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local index = math.floor(now / window)
local s = redis.call('HMGET', KEYS[1], 'i', 'c', 'p')
local i, c, p = tonumber(s[1]) or index, tonumber(s[2]) or 0, tonumber(s[3]) or 0
if i == index - 1 then p, c = c, 0 elseif i ~= index then p, c = 0, 0 end
local used = p * (window - now % window) / window + c
if used + weight > limit then return {0, math.floor(limit - used), window - now % window} end
redis.call('HSET', KEYS[1], 'i', index, 'c', c + weight, 'p', p)
redis.call('PEXPIRE', KEYS[1], 2 * window)
return {1, math.floor(limit - used - weight), window - now % window}`

func (n *naive) check(c echo.Context) error {
	var q struct {
		User   string `json:"user"`
		Weight int64  `json:"weight"`
	}
	if err := json.NewDecoder(c.Request().Body).Decode(&q); err != nil {
		return c.NoContent(http.StatusBadRequest)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), time.Second)
	defer cancel()
	v, err := n.script.Run(ctx, n.client, []string{"naive:user:" + q.User}, 1_000_000, 60_000, max(q.Weight, 1)).Int64Slice()
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, map[string]any{"allowed": v[0] == 1, "limit": 1_000_000, "remaining": v[1], "reset_ms": v[2]})
}

// startPeer starts this same program as a yardstick.
func startPeer(ctx context.Context, kind, dir, redisURL string) (*process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	addr, err := freeAddr(ctx)
	if err != nil {
		return nil, "", err
	}
	p, err := start(ctx, filepath.Join(dir, kind+".log"), nil, self, "-peer", kind, "-addr", addr, "-redis", redisURL)
	if err != nil {
		return nil, "", err
	}
	err = until(ctx, p, func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	})
	return p, addr, err
}
