package devnet

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"time"

	"github.com/pforte/pforte/pkg/config"
	"github.com/pforte/pforte/pkg/logging"
	"github.com/pforte/pforte/pkg/receipt/finality/beacontest"
	"github.com/pforte/pforte/pkg/service"
)

// Config holds the settings of the program devnet.
type Config struct {
	RPCAddr         string        `env:"RPC_ADDR" default:"127.0.0.1:8545" doc:"address of the chain's JSON-RPC"`
	FacilitatorAddr string        `env:"FACILITATOR_ADDR" default:"127.0.0.1:8402" doc:"address of the x402 facilitator"`
	BeaconAddr      string        `env:"BEACON_ADDR" doc:"address of the beacon API that proves the chain's finality; empty for none"`
	ChainID         uint64        `env:"CHAIN_ID" default:"84532" doc:"EIP-155 id of the chain; the default is Base Sepolia's, so that stock x402 clients of both versions pay here"`
	BlockTime       time.Duration `env:"BLOCK_TIME" default:"1s" doc:"pause between blocks, at least 1s"`
	FinalityDepth   uint64        `env:"FINALITY_DEPTH" default:"2" doc:"how many blocks the finalized head is behind the latest"`
	LogLevel        string        `env:"LOG_LEVEL" default:"info" doc:"debug, info, warn or error"`
}

const usage = `devnet runs a development chain with a USD token and an x402 facilitator on it, and
the beacon node that proves its finality.
Everything is in memory; its keys are public.

  devnet               run until stopped; prints one line of JSON when ready
  devnet healthcheck   fail unless the facilitator of this machine answers
  devnet network       print the constants of its beacon network, for
                       CHAIN_BEACON_NETWORK and receipt verify --network
  devnet --help | --version

Settings are environment variables:

`

// Run carries out the command line and returns the exit code. After a stop by ctx that is 0, unless a request has not
// ended in time or the network could not be closed.
func Run(ctx context.Context, p service.Process) int {
	with := func(do func(Config) error) service.Command {
		return func(_ context.Context, args []string) error {
			if _, err := service.Parse(service.Flags(), args); err != nil {
				return err
			}
			cfg, err := config.Load[Config](p.Getenv)
			if err != nil {
				return err
			}
			return do(cfg)
		}
	}
	return service.Program{
		Name: "devnet", Help: usage + config.Table[Config](), UsageCode: 1,
		Commands: map[string]service.Command{
			"serve":       with(func(c Config) error { return run(ctx, c, p.Stdout, p.Stderr) }),
			"healthcheck": with(func(c Config) error { return service.Healthcheck(ctx, c.FacilitatorAddr) }),
			"network":     with(func(c Config) error { return printNetwork(p.Stdout, c) }),
		},
	}.Run(ctx, p)
}

func run(ctx context.Context, cfg Config, stdout, stderr io.Writer) (err error) {
	log, err := logging.New(stderr, cfg.LogLevel)
	if err != nil {
		return err
	}
	network, err := Start(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	debug.FreeOSMemory() // the node made 27 MB at the start and keeps less than one of it
	servers := []service.Server{
		{Name: "FACILITATOR_ADDR", Addr: cfg.FacilitatorAddr, Handler: network.Facilitator.Handler()},
	}
	if network.Beacon != nil {
		servers = append(servers, service.Server{
			Name: "BEACON_ADDR", Addr: cfg.BeaconAddr, Handler: network.Beacon.Handler(),
		})
	}
	return service.Serve(ctx, func(addrs []net.Addr) {
		var beacon string
		if network.Beacon != nil {
			beacon = "http://" + addrs[1].String()
		}
		err := json.NewEncoder(stdout).Encode(description{
			RPC: network.RPCURL(), Facilitator: "http://" + addrs[0].String(), Beacon: beacon,
			Network: network.Facilitator.network,
			Asset:   TokenAddress.Hex(), AssetName: TokenName, AssetVersion: TokenVersion,
			Payer: PayerAddress.Hex(), Payee: PayeeAddress.Hex(),
		})
		if err != nil {
			log.Error("print what is served", "error", err)
		}
	}, servers...)
}

// description is what the program prints when it is ready.
type description struct {
	RPC          string `json:"rpc"`
	Facilitator  string `json:"facilitator"`
	Beacon       string `json:"beacon,omitempty"`
	Network      string `json:"network"`
	Asset        string `json:"asset"`
	AssetName    string `json:"assetName"`
	AssetVersion string `json:"assetVersion"`
	Payer        string `json:"payer"`
	Payee        string `json:"payee"`
}

// Network is a running development network.
type Network struct {
	*Chain
	Facilitator *Facilitator
	Beacon      *beacontest.Beacon // nil without BEACON_ADDR
}

// Start starts the chain and makes its facilitator and, with a BeaconAddr, its beacon node.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Network, error) {
	t, err := readToken()
	if err != nil {
		return nil, err
	}
	chain, err := startChain(ctx, cfg, alloc(t), log)
	if err != nil {
		return nil, err
	}
	facilitator, err := newFacilitator(chain.Client(), t, cfg.ChainID, log)
	if err != nil {
		return nil, errors.Join(err, chain.Close())
	}
	network := &Network{Chain: chain, Facilitator: facilitator}
	if cfg.BeaconAddr != "" {
		if network.Beacon, err = newBeacon(chain, cfg); err != nil {
			return nil, errors.Join(err, chain.Close())
		}
	}
	return network, nil
}
