// Command kafka runs a Kafka broker in memory, kfake, in a separate process, for measurements of the decision log. It
// prints its addresses and runs until it is stopped.
//
//	go run ./kafka -ports 19092,19093 -discard
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	ports := flag.String("ports", "19092", "a port on 127.0.0.1 for each broker, separated by commas")
	topic := flag.String("topic", "sluice.decisions", "topic to create")
	partitions := flag.Int("partitions", 4, "partitions of the topic, at least 1")
	discard := flag.Bool("discard", false, "accept events without storing them, so that the broker costs little")
	dir := flag.String("dir", "", "directory in which topics outlive a restart; empty keeps them in memory")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *ports, *topic, *partitions, *discard, *dir)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, ports, topic string, partitions int, discard bool, dir string) error {
	var listen []int
	for p := range strings.SplitSeq(ports, ",") {
		n, err := strconv.Atoi(p)
		if err != nil {
			return fmt.Errorf("-ports: %w", err)
		}
		listen = append(listen, n)
	}
	if partitions < 1 || partitions > 1000 {
		return fmt.Errorf("-partitions must be 1 to 1000")
	}
	opts := []kfake.Opt{kfake.NumBrokers(len(listen)), kfake.Ports(listen...), kfake.SeedTopics(int32(partitions), topic)}
	if discard {
		opts = append(opts, kfake.BlackholeProduce())
	}
	if dir != "" {
		opts = append(opts, kfake.DataDir(dir))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Println(strings.Join(c.ListenAddrs(), ","))
	<-ctx.Done()
	return nil
}
