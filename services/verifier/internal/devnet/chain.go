package devnet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/beacon/engine"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth"
	"github.com/ethereum/go-ethereum/eth/catalyst"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/miner"
	"github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/p2p"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/pforte/pforte/pkg/periodic"
)

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

// startChain starts a chain and its blocks. alloc is what the genesis block holds
// beside the system contracts; without an RPCAddr there is no JSON-RPC server. Close
// stops them, and not the end of ctx: a settlement under way still needs its block.
func startChain(ctx context.Context, c Config, alloc types.GenesisAlloc, log *slog.Logger) (*Chain, error) {
	if c.BlockTime < time.Second {
		return nil, errors.New("blocks need at least a second: their time is in seconds and must grow")
	}
	stack, err := newNode(c.RPCAddr)
	if err != nil {
		return nil, err
	}
	chain := &Chain{stack: stack, depth: c.FinalityDepth, log: log}
	if err := chain.start(ctx, genesis(c.ChainID, alloc)); err != nil {
		_ = stack.Close() // err says what failed
		return nil, err
	}
	ctx, chain.stop = context.WithCancel(context.WithoutCancel(ctx))
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
		conf.HTTPHost = cmp.Or(host, "0.0.0.0")
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

func (c *Chain) start(ctx context.Context, genesis *core.Genesis) error {
	ethConf := ethconfig.Defaults
	ethConf.NetworkId = genesis.Config.ChainID.Uint64()
	ethConf.Genesis = genesis
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

// genesis returns a genesis block in which every fork up to Prague holds.
func genesis(chainID uint64, alloc types.GenesisAlloc) *core.Genesis {
	config := *params.AllDevChainProtocolChanges
	config.ChainID = new(big.Int).SetUint64(chainID)
	config.OsakaTime, config.BPO1Time, config.BPO2Time, config.BPO3Time, config.BPO4Time, config.BPO5Time = nil, nil,
		nil, nil, nil, nil
	config.BogotaTime, config.AmsterdamTime, config.UBTTime = nil, nil, nil
	config.BlobScheduleConfig = &params.BlobScheduleConfig{
		Cancun: params.DefaultCancunBlobConfig, Prague: params.DefaultPragueBlobConfig,
	}
	all := core.SystemContractAllocs()
	maps.Copy(all, alloc)
	return &core.Genesis{Config: &config, GasLimit: 36_000_000, BaseFee: big.NewInt(params.InitialBaseFee), Alloc: all}
}

// Client returns a client of the node that needs no network.
func (c *Chain) Client() *ethclient.Client { return ethclient.NewClient(c.stack.Attach()) }

// RPCURL returns where the node answers JSON-RPC.
func (c *Chain) RPCURL() string { return c.stack.HTTPEndpoint() }

// Close stops the blocks and the node.
func (c *Chain) Close() error {
	c.stop()
	c.stopped.Wait()
	return c.stack.Close()
}

const (
	// buildTimeout bounds how long filling a block may take; a block that is not
	// filled by then goes without transactions, and the next one has them.
	buildTimeout = 5 * time.Second
	// buildPoll is the pause between checks whether a block is filled.
	buildPoll = 2 * time.Millisecond
)

// keepSealing adds a block at every interval until ctx ends.
func (c *Chain) keepSealing(ctx context.Context, interval time.Duration) {
	periodic.Run(ctx, interval, func() {
		if err := c.seal(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("cannot add a block", "error", err)
		}
	})
}

// seal adds one block with the transactions that wait, and moves the finalized
// head, as a consensus client does (Engine API, Prague: newPayloadV4,
// forkchoiceUpdatedV3).
func (c *Chain) seal(ctx context.Context) error {
	if err := c.backend.TxPool().Sync(); err != nil {
		return fmt.Errorf("update the pool: %w", err)
	}
	built, err := c.build(ctx, c.backend.BlockChain().CurrentBlock())
	if err != nil {
		return err
	}
	requests := make([]hexutil.Bytes, 0, len(built.Requests))
	for _, r := range built.Requests {
		requests = append(requests, r)
	}
	block := built.ExecutionPayload
	status, err := c.engine.NewPayloadV4(ctx, *block, []common.Hash{}, &common.Hash{}, requests)
	if err != nil {
		return fmt.Errorf("add the block: %w", err)
	}
	if status.Status != engine.VALID {
		return fmt.Errorf("the node returns %s for its own block", status.Status)
	}
	finalized := c.backend.BlockChain().GetCanonicalHash(block.Number - min(block.Number, c.depth))
	choice := engine.ForkchoiceStateV1{
		HeadBlockHash: block.BlockHash, SafeBlockHash: finalized, FinalizedBlockHash: finalized,
	}
	if _, err = c.engine.ForkchoiceUpdatedV3(ctx, choice, nil); err != nil {
		return fmt.Errorf("move the head: %w", err)
	}
	return nil
}

// build makes the node build the next block, and waits, up to buildTimeout, until it has tried
// every waiting transaction: the node begins with an empty block.
func (c *Chain) build(ctx context.Context, head *types.Header) (*engine.ExecutionPayloadEnvelope, error) {
	args := miner.BuildPayloadArgs{
		Parent: head.Hash(), Timestamp: max(uint64(time.Now().Unix()), head.Time+1),
		Withdrawals: types.Withdrawals{}, BeaconRoot: &common.Hash{}, Version: engine.PayloadV3,
	}
	_, _ = rand.Read(args.Random[:]) // never fails
	payload, err := c.backend.Miner().BuildPayload(ctx, &args, false)
	if err != nil {
		return nil, fmt.Errorf("begin a block: %w", err)
	}
	ticker, timeout := time.NewTicker(buildPoll), time.After(buildTimeout)
	defer ticker.Stop()
	for {
		if filled, _, _, _ := payload.FullBlockAndReceipts(); filled != nil {
			return payload.Resolve(), nil
		}
		select {
		case <-ctx.Done():
			payload.Resolve() // stops the building
			return nil, ctx.Err()
		case <-timeout:
			return payload.Resolve(), nil
		case <-ticker.C:
		}
	}
}
