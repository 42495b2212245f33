package devnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/catalyst"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"
)

// ChainConfig describes the chain to run.
type ChainConfig struct {
	ID uint64
	// RPCAddr is the TCP address of the JSON-RPC server, "" for none.
	RPCAddr string
	// BlockTime is the pause between blocks, at least a second: a block's time
	// is in seconds and must be later than its parent's.
	BlockTime time.Duration
	// FinalityDepth is how many blocks the finalized head is behind the latest.
	FinalityDepth uint64
	// Alloc holds what the genesis block holds beside the system contracts.
	Alloc types.GenesisAlloc
	Log   *slog.Logger
}

// Chain is a running development chain.
type Chain struct {
	stack   *node.Node
	backend *eth.Ethereum
	engine  *catalyst.ConsensusAPI
	depth   uint64
	log     *slog.Logger

	stop    context.CancelFunc
	stopped sync.WaitGroup
}

// StartChain starts a chain and its blocks. Close stops them, and not the end of
// ctx: a settlement under way still needs its block.
func StartChain(ctx context.Context, c ChainConfig) (*Chain, error) {
	if c.BlockTime < time.Second {
		return nil, errors.New("blocks need at least a second: their time is in seconds and must grow")
	}
	stack, err := newNode(c.RPCAddr)
	if err != nil {
		return nil, err
	}
	chain := &Chain{stack: stack, depth: c.FinalityDepth, log: c.Log}
	if err := chain.start(ctx, c); err != nil {
		_ = stack.Close() // which only repeats that it did not start
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	chain.stop = stop
	chain.stopped.Go(func() { chain.keepSealing(ctx, c.BlockTime) })
	return chain, nil
}

func newNode(rpcAddr string) (*node.Node, error) {
	conf := node.DefaultConfig
	conf.DataDir = ""      // in memory
	conf.KeyStoreDir = "." // any folder that is there: no key is kept, and without a name one is made in /tmp
	conf.P2P = p2p.Config{NoDiscovery: true, NoDial: true, MaxPeers: 0}
	conf.HTTPModules = []string{"eth", "net", "web3"}
	conf.HTTPVirtualHosts = []string{"*"}
	conf.IPCPath = ""
	if rpcAddr != "" {
		host, port, err := net.SplitHostPort(rpcAddr)
		if err != nil {
			return nil, fmt.Errorf("RPC address: %w", err)
		}
		if host == "" {
			host = "0.0.0.0"
		}
		conf.HTTPHost = host
		if conf.HTTPPort, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("RPC address: %w", err)
		}
	}
	stack, err := node.New(&conf)
	if err != nil {
		return nil, fmt.Errorf("make the node: %w", err)
	}
	return stack, nil
}

func (c *Chain) start(ctx context.Context, conf ChainConfig) error {
	ethConf := ethconfig.Defaults
	ethConf.NetworkId = conf.ID
	ethConf.Genesis = genesis(conf)
	ethConf.SyncMode = ethconfig.FullSync
	ethConf.LogNoHistory = true
	ethConf.StateHistory = 256 // blocks; older ones would fill the memory, and their state is not read
	ethConf.DatabaseCache, ethConf.TrieCleanCache, ethConf.TrieDirtyCache, ethConf.SnapshotCache = 16, 16, 16, 16
	backend, err := eth.New(c.stack, &ethConf)
	if err != nil {
		return fmt.Errorf("make the chain: %w", err)
	}
	system := filters.NewFilterSystem(backend.APIBackend, filters.Config{})
	c.stack.RegisterAPIs([]rpc.API{{Namespace: "eth", Service: filters.NewFilterAPI(system)}})
	if err := c.stack.Start(); err != nil {
		return fmt.Errorf("start the node: %w", err)
	}
	c.backend, c.engine = backend, catalyst.NewConsensusAPI(backend)
	return c.seal(ctx)
}

// genesis has every fork up to Prague from the first block on.
func genesis(conf ChainConfig) *core.Genesis {
	config := *params.AllDevChainProtocolChanges
	config.ChainID = new(big.Int).SetUint64(conf.ID)
	config.OsakaTime, config.BPO1Time, config.BPO2Time, config.BPO3Time, config.BPO4Time, config.BPO5Time = nil, nil, nil, nil, nil, nil
	config.BogotaTime, config.AmsterdamTime, config.UBTTime = nil, nil, nil
	config.BlobScheduleConfig = &params.BlobScheduleConfig{Cancun: params.DefaultCancunBlobConfig, Prague: params.DefaultPragueBlobConfig}
	alloc := core.SystemContractAllocs()
	for address, account := range conf.Alloc {
		alloc[address] = account
	}
	return &core.Genesis{Config: &config, GasLimit: 36_000_000, BaseFee: big.NewInt(params.InitialBaseFee), Alloc: alloc}
}

// Client returns a client of the node that needs no network.
func (c *Chain) Client() *ethclient.Client { return ethclient.NewClient(c.stack.Attach()) }

// RPCURL is where the node answers JSON-RPC.
func (c *Chain) RPCURL() string { return c.stack.HTTPEndpoint() }

// Close stops the blocks and the node.
func (c *Chain) Close() error {
	c.stop()
	c.stopped.Wait()
	return c.stack.Close()
}
