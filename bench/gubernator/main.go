// Command gubernator runs gubernator's own daemon as one node without discovery, for
// measurements by bench/load.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/gubernator-io/gubernator/v2"
	"github.com/sirupsen/logrus"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: gubernator HTTP-ADDRESS GRPC-ADDRESS")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1], os.Args[2])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gubernator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, httpAddr, grpcAddr string) error {
	log := logrus.New()
	log.SetOutput(io.Discard)
	d, err := gubernator.SpawnDaemon(ctx, gubernator.DaemonConfig{
		GRPCListenAddress: grpcAddr, HTTPListenAddress: httpAddr, AdvertiseAddress: grpcAddr, Logger: log,
	})
	if err != nil {
		return err
	}
	d.SetPeers([]gubernator.PeerInfo{{GRPCAddress: grpcAddr, HTTPAddress: httpAddr, IsOwner: true}})
	<-ctx.Done()
	d.Close()
	return nil
}
