// Command recordednode serves recorded blocks over JSON-RPC, as a node would, for
// trying the verifier on real blocks without a network.
//
//	recordednode --block FOLDER|FILE.json.gz [--listen ADDR] [--latest N] [--finalized N]
//
// A folder holds block.json and, if the block has receipts, receipts.json: the
// results of eth_getBlockByNumber (full) and eth_getBlockReceipts. Its meta.json has
// the chainId. Once it listens it prints its URL, alone on a line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pforte/pforte/services/verifier/internal/chain/recorded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "recordednode:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("recordednode", flag.ContinueOnError)
	flags.SetOutput(stderr)
	block := flags.String("block", "", "the recording: a folder, or a .json.gz file (required)")
	listen := flags.String("listen", "127.0.0.1:8545", "address to listen on; port 0 takes a free one")
	latest := flags.Uint64("latest", 0, "number of the latest block; 0 = the highest recorded one")
	finalized := flags.Uint64("finalized", 0, "number of the finalized block; 0 = the latest")
	if err := flags.Parse(args); err != nil {
		return err
	}
	recording, err := recorded.Load(*block)
	if err != nil {
		return err
	}
	node := recorded.NewNode(recording)
	if err := node.ChooseHeads(*latest, *finalized); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if _, err := fmt.Fprintf(stdout, "http://%s\n", listener.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: node, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
