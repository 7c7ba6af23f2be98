package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/bench/process"
)

const (
	// outageRate is the number of checks per second during an outage of Kafka. Each check is an event.
	outageRate = 2000
	// outageCalm is how long is measured before the outage, and after it.
	outageCalm = 20 * time.Second
)

// outageOnly measures an outage of the Kafka of the decision log: the broker is killed, and started again.
func outageOnly(ctx context.Context, s settings, dir string) error {
	built, err := buildAll(ctx, dir, []kind{sluice})
	if err != nil {
		return err
	}
	redis, redisAddr, err := process.StartRedis(ctx, dir)
	if err != nil {
		return err
	}
	defer redis.Stop()
	topics := filepath.Join(dir, "topics")
	kafka, addr, err := startKafka(ctx, dir, "-dir", topics)
	if err != nil {
		return err
	}
	defer func() { kafka.Stop() }()
	sc := scenario{kind: sluice, redis: true, path: check, body: described, rules: oneRule,
		env: []string{"SLUICE_DECISION_LOG=kafka", "SLUICE_DECISION_LOG_RATE=100", "SLUICE_KAFKA_BROKERS=" + addr}}
	srv, err := startServer(ctx, built.path[sluice], sc, dir, redisAddr, s.gogc)
	if err != nil {
		return err
	}
	defer srv.Stop()
	if err := srv.Expect(ctx, http.MethodPost, "/ratelimit/rules", oneRule[0], http.StatusCreated); err != nil {
		return err
	}
	reqs := requests(srv.Target, sc, s.keys)
	phase := func(name string, length time.Duration) error {
		var heap, resident float64
		ended := make(chan struct{})
		sampled := make(chan error, 1)
		go func() { sampled <- sample(ctx, srv, ended, &heap, &resident) }()
		lat, err := openLoop(ctx, connections(srv.Target, reqs), 64, outageRate, length)
		close(ended)
		if err := <-sampled; err != nil {
			return err
		}
		if err != nil {
			return err
		}
		l := summarize(lat)
		fmt.Printf("| %s | %.0f | %s | %s | %.0f | %.0f |\n", name, length.Seconds(), ms(l.p50), ms(l.p99), heap/(1<<20),
			resident/(1<<20))
		return nil
	}
	fmt.Printf("%d checks a second, each an event.\n\n| | seconds | p50 ms | p99 ms | heap, most MiB | resident, most "+
		"MiB |\n|---|---|---|---|---|---|\n", outageRate)
	if err := phase("before", outageCalm); err != nil {
		return err
	}
	kafka.End(9)
	if err := phase("Kafka is dead", s.outage); err != nil {
		return err
	}
	before, err := srv.Metric(ctx, "sluice_decision_log_delivered_total")
	if err != nil {
		return err
	}
	if kafka, err = runKafka(ctx, filepath.Join(dir, "kafka.bin"), addr, "-dir", topics); err != nil {
		return err
	}
	back, first := time.Now(), make(chan time.Duration, 1)
	go func() {
		for range time.Tick(20 * time.Millisecond) {
			if n, err := srv.Metric(ctx, "sluice_decision_log_delivered_total"); err != nil || n > before {
				first <- time.Since(back)
				return
			}
		}
	}()
	if err := phase("after", outageCalm); err != nil {
		return err
	}
	fmt.Printf("\nFirst event after the outage: %.1f s after the broker accepted connections.\n", (<-first).Seconds())
	srv.End(15)
	log, err := os.ReadFile(srv.Log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "the decision log is closed") {
			fmt.Print("\nThe node says: ", line)
		}
	}
	out, err := exec.CommandContext(ctx, "kcat", "-C", "-b", addr, "-t", "sluice.decisions", "-o", "beginning", "-e", "-q",
		"-f", "%h\\n").Output()
	if err != nil {
		return fmt.Errorf("kcat: %w", err)
	}
	numbers, lines := map[string]bool{}, 0
	for line := range strings.Lines(string(out)) {
		numbers[line] = true
		lines++
	}
	fmt.Printf("\nThe topic has %d events, of which %d are different.\n", lines, len(numbers))
	return nil
}

// sample finds the largest heap and the most resident memory of a node, in bytes, until ended is closed.
func sample(ctx context.Context, srv server, ended <-chan struct{}, heap, resident *float64) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return nil
		case <-tick.C:
		}
		n, err := srv.Metric(ctx, "go_memstats_heap_inuse_bytes")
		if err != nil {
			return err
		}
		*heap, *resident = max(*heap, n), max(*resident, float64(srv.Resident()))
	}
}
