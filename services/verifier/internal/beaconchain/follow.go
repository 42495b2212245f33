package beaconchain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
	"github.com/pforte/pforte/services/verifier/internal/chain"
)

const (
	// maxAnchors is how many verified updates are kept: on Ethereum more than two days of them.
	maxAnchors = 512
	// maxCatchUp is how many periods of handovers are read at once, after a pause. No document has
	// more steps.
	maxCatchUp = finality.MaxSteps
	// oldEpochs is after how many epochs the newest finalized block is so old that other nodes
	// are asked for a newer one.
	oldEpochs = 4
	// checkAgain is how long a node of another network is left alone.
	checkAgain = 10 * time.Minute
	// lateEpochs is how many epochs after the end of a period, by a node's own finalized block, an
	// update that hands over is waited for: a node may still be reading it. Nodes that do not
	// answer are waited for as long.
	lateEpochs = 4
)

// node is a beacon node, with whether it is one of the network, when that was checked, and its genesis time.
type node struct {
	chain.BeaconNode
	fits    bool
	checked time.Time
	genesis time.Time
}

// errOtherNetwork means that a node's constants are not those of the network.
var errOtherNetwork = errors.New("the beacon node is one of another network")

// errUnverified means that what a node returned does not verify.
var errUnverified = errors.New("what the beacon node returned does not verify")

// errTooFar means that a node is further ahead than handovers are read for.
var errTooFar = errors.New("the beacon node is too far ahead of what is known")

// errNoHandover means that a node's finalized block is well after the last known period, and
// that the node has no update of that period that hands over.
var errNoHandover = errors.New("the period is over, and the beacon node has no update that hands over")

// errOld means that the newest update of a node verifies, and that no newer one is known
// though there should be.
var errOld = errors.New("the newest finalized block is old")

func unverified(err error) error { return fmt.Errorf("%w: %w", errUnverified, err) }

// Follow reads the newest finality update and what is missing to verify it, and keeps what
// is new. Where what is kept leads no further, it begins anew. What fails is logged.
func (c *Chain) Follow(ctx context.Context) error {
	c.following.Lock()
	defer c.following.Unlock()
	tooFar := 0
	var lacking []*node // those without a handover
	err := c.begin(ctx)
	if err == nil {
		err = c.ask(ctx, c.nodes, func(n *node) error {
			u, err := n.FinalityUpdate(ctx)
			if err == nil {
				err = c.accept(ctx, n, u)
			}
			if errors.Is(err, errTooFar) {
				tooFar++
			}
			if errors.Is(err, errNoHandover) {
				lacking = append(lacking, n)
			}
			return err
		})
	}
	if c.noHandover(ctx, lacking, err) {
		err = c.ask(ctx, lacking, func(n *node) error { return c.first(ctx, n) })
	}
	if errors.Is(err, errOld) {
		c.Log.WarnContext(ctx, "finality: no node has a newer update", "error", err)
		err = nil
	}
	// Where to begin is a node's word, and so is how far it is: it is taken only where no
	// other node may know better, and what is kept can be that old.
	if tooFar == len(c.nodes) && (c.verified.IsZero() ||
		c.Now().Sub(c.verified) > maxCatchUp*c.seconds(c.Network.SlotsPerPeriod)) {
		c.Log.WarnContext(ctx,
			"finality: what is kept is too long ago to go on from; the beacon chain is followed anew", "error", err)
		err = c.ask(ctx, c.nodes, func(n *node) error { return c.first(ctx, n) })
	}
	if err == nil {
		err = errors.Join(c.keepHandovers(ctx), c.keepCheckpoint(ctx))
	}
	if err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "finality: the beacon chain cannot be followed", "error", err)
	}
	return err
}

// noHandover reports whether to follow the beacon chain anew, because a period is over and no node
// that answered has its handover, so that nothing leads on from what is kept. lacking are the nodes
// without it. A node that failed may have it, and is waited for a while. err is how reading the
// newest update has ended.
func (c *Chain) noHandover(ctx context.Context, lacking []*node, err error) bool {
	switch {
	case err == nil:
		c.lackingSince = time.Time{}
		return false
	case len(lacking) == 0:
		return false
	case c.lackingSince.IsZero():
		c.lackingSince = c.Now()
	}
	c.Failed(CauseHandover)
	anew := len(lacking) == len(c.nodes) || c.Now().Sub(c.lackingSince) > c.seconds(lateEpochs*c.Network.SlotsPerEpoch)
	c.Log.ErrorContext(ctx, "finality: no beacon node hands over to the committee after a period; readers need a "+
		"checkpoint of a later period for blocks from then on",
		"period", c.lastPeriod(), "nodes", len(lacking), "anew", anew, "error", err)
	return anew
}

// ask lets nodes answer in turn until what one returns is used without an error; else it joins the
// errors of those asked. Each is counted as a failure, unless ctx has ended, or the node does not have it,
// has nothing newer, or is of another network, which check counts.
func (c *Chain) ask(ctx context.Context, nodes []*node, use func(*node) error) error {
	var faults []error
	for _, n := range nodes {
		err := c.check(ctx, n)
		if err == nil {
			err = use(n)
		}
		if err == nil {
			return nil
		}
		faults = append(faults, err)
		switch {
		case ctx.Err() != nil:
			return errors.Join(faults...)
		case errors.Is(err, errOtherNetwork), errors.Is(err, chain.ErrNoBeaconData), errors.Is(err, errOld):
		case errors.Is(err, errUnverified):
			c.Failed(CauseUpdate)
		default:
			c.Failed(CauseNode)
		}
	}
	return errors.Join(faults...)
}

// check compares a node's constants with the network's, until they were the same once.
// errOtherNetwork: they differ, and are compared again after checkAgain.
func (c *Chain) check(ctx context.Context, n *node) error {
	c.mu.Lock()
	fits, checked := n.fits, n.checked
	c.mu.Unlock()
	switch {
	case fits:
		return nil
	case !checked.IsZero() && c.Now().Sub(checked) < checkAgain:
		return fmt.Errorf("%s: %w", n.Name(), errOtherNetwork)
	}
	genesis, err := n.Genesis(ctx)
	if err != nil {
		return err
	}
	spec, err := n.Spec(ctx)
	if err != nil {
		return err
	}
	why := c.differs(genesis, spec)
	c.mu.Lock()
	n.fits, n.checked, n.genesis = why == "", c.Now(), genesis.Time
	c.mu.Unlock()
	if why != "" {
		c.Failed(CauseNetwork)
		c.Log.ErrorContext(ctx, "finality: a beacon node is not one of the network; it is not used, and without "+
			"another one no proofs of finality are made",
			"node", n.Name(), "network", c.Network.Name, "differs", why)
		return fmt.Errorf("%s: %w: %s", n.Name(), errOtherNetwork, why)
	}
	for _, fork := range []string{"ALTAIR", "BELLATRIX", "CAPELLA", "DENEB", "ELECTRA", "FULU", "GLOAS"} {
		epoch, err := strconv.ParseUint(spec[fork+"_FORK_EPOCH"], 10, 64)
		known := slices.ContainsFunc(c.Network.Forks, func(f finality.Fork) bool {
			return strings.EqualFold(f.Name, fork)
		})
		if err == nil && epoch != math.MaxUint64 && !known {
			c.Log.WarnContext(ctx, "finality: the beacon node knows a fork that this program does not; from its "+
				"epoch on no update will verify", "node", n.Name(), "fork", fork, "epoch", epoch)
		}
	}
	return nil
}

// differs returns names of a node's constants that differ from the network's, "" where none does.
func (c *Chain) differs(genesis chain.BeaconGenesis, spec map[string]string) string {
	n := c.Network
	if genesis.ValidatorsRoot != n.GenesisValidatorsRoot {
		return "genesis_validators_root"
	}
	number := func(v uint64) string { return strconv.FormatUint(v, 10) }
	want := map[string]string{
		"SECONDS_PER_SLOT": number(n.SecondsPerSlot), "SLOTS_PER_EPOCH": number(n.SlotsPerEpoch),
		"EPOCHS_PER_SYNC_COMMITTEE_PERIOD": number(n.SlotsPerPeriod / n.SlotsPerEpoch),
		"SYNC_COMMITTEE_SIZE":              strconv.Itoa(n.CommitteeSize),
		"DEPOSIT_CHAIN_ID":                 strings.TrimPrefix(n.ChainID, "eip155:"),
	}
	for _, fork := range n.Forks {
		version, _ := fork.Version.MarshalText() // never fails
		name := strings.ToUpper(fork.Name)
		want[name+"_FORK_VERSION"], want[name+"_FORK_EPOCH"] = string(version), number(uint64(fork.Epoch))
	}
	var differing []string
	for name, value := range want {
		if !strings.EqualFold(spec[name], value) {
			differing = append(differing, name)
		}
	}
	slices.Sort(differing)
	return strings.Join(differing, ", ")
}

// begin loads what is kept, unless it has begun; where nothing is kept, it takes the finalized
// block of a node as the checkpoint to begin at.
func (c *Chain) begin(ctx context.Context) error {
	if len(c.committees) > 0 {
		return nil
	}
	kept, err := c.Store.OwnCheckpoints(ctx, c.Network.ChainID, 0)
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		return c.ask(ctx, c.nodes, func(n *node) error { return c.first(ctx, n) })
	}
	for _, k := range kept {
		c.checkpoints[k.Period] = k.Root
	}
	newest := kept[len(kept)-1]
	var checkpoint finality.Checkpoint
	if err := json.Unmarshal(newest.Checkpoint, &checkpoint); err != nil || checkpoint.Committee == nil {
		return fmt.Errorf("read the checkpoint %x: %w", newest.Root, errors.Join(err, errUnverified))
	}
	if err := c.Network.VerifyCheckpoint(checkpoint); err != nil {
		return fmt.Errorf("the checkpoint %x: %w", newest.Root, err)
	}
	committees := map[uint64]finality.Root{newest.Period: *checkpoint.Committee}
	steps, err := c.Store.Steps(ctx, c.Network.ChainID, newest.Period, newest.Period+maxCatchUp)
	if err != nil {
		return err
	}
	for _, k := range steps {
		var step finality.Step
		err := json.Unmarshal(k.Step, &step)
		if err == nil {
			err = c.Network.VerifyStep(&step, committees[k.Period], k.Period)
		}
		if err == nil && step.NextCommittee == nil {
			err = errUnverified
		}
		if err != nil {
			return fmt.Errorf("the step of period %d: %w", k.Period, err)
		}
		committees[k.Period+1] = *step.NextCommittee
		c.steps[k.Period] = k.Final
	}
	c.committees = committees
	return nil
}

// first takes the finalized block of a node as the checkpoint to begin at. Only this node
// vouches for it: all that can be checked is that the node's own updates verify with it.
func (c *Chain) first(ctx context.Context, n *node) error {
	u, err := n.FinalityUpdate(ctx)
	if err != nil {
		return err
	}
	root := u.FinalizedHeader.Beacon.HashTreeRoot()
	checkpoint, boot, err := c.bootstrap(ctx, n, root)
	if err != nil {
		return err
	}
	period := c.Network.Period(uint64(checkpoint.Header.Slot))
	if c.Network.Period(uint64(u.SignatureSlot)) == period { // else the next committee signs, which is read first
		if _, err := c.signed(&boot.CurrentSyncCommittee, *checkpoint.Committee, u, period, true); err != nil {
			return err
		}
	}
	if err := c.keepOwn(ctx, checkpoint); err != nil {
		return err
	}
	c.committees = map[uint64]finality.Root{period: *checkpoint.Committee}
	c.keys = map[uint64]*lightclient.SyncCommittee{period: &boot.CurrentSyncCommittee}
	c.Log.InfoContext(ctx, "finality: the beacon chain is followed from a checkpoint that a node called final",
		"node", n.Name(), "checkpoint", root.String(), "slot", uint64(checkpoint.Header.Slot))
	return nil
}

// bootstrap reads and verifies the checkpoint with a root.
func (c *Chain) bootstrap(
	ctx context.Context, n *node, root finality.Root,
) (finality.Checkpoint, *lightclient.Bootstrap, error) {
	boot, err := n.Bootstrap(ctx, root)
	if err != nil {
		return finality.Checkpoint{}, nil, err
	}
	checkpoint := lightclient.NewCheckpoint(boot)
	switch {
	case checkpoint.Root != root:
		return checkpoint, nil, unverified(errors.New("the bootstrap of another block"))
	case len(boot.CurrentSyncCommittee.Pubkeys) != c.Network.CommitteeSize:
		return checkpoint, nil, unverified(errors.New("a committee of another size"))
	}
	if err := c.Network.VerifyCheckpoint(checkpoint); err != nil {
		return checkpoint, nil, unverified(err)
	}
	return checkpoint, boot, nil
}

func (c *Chain) keepOwn(ctx context.Context, checkpoint finality.Checkpoint) error {
	if err := c.keepNamed(ctx, checkpoint, true); err != nil {
		return err
	}
	c.checkpoints[c.Network.Period(uint64(checkpoint.Header.Slot))] = checkpoint.Root
	return nil
}

func (c *Chain) keepNamed(ctx context.Context, checkpoint finality.Checkpoint, own bool) error {
	text, err := json.Marshal(checkpoint)
	if err != nil {
		return err
	}
	slot := uint64(checkpoint.Header.Slot)
	return c.Store.KeepCheckpoint(ctx, Checkpoint{
		Chain: c.Network.ChainID, Root: checkpoint.Root, Slot: slot, Period: c.Network.Period(slot), Own: own,
		Checkpoint: text,
	})
}

// seconds returns the duration of so many slots.
func (c *Chain) seconds(slots uint64) time.Duration {
	return time.Duration(slots*c.Network.SecondsPerSlot) * time.Second
}

// accept verifies a finality update and keeps it as an anchor. errOld: it is kept, and
// another node may have a newer one. errTooFar, errNoHandover: the committee that signed it
// cannot be known. errUnverified: it, or what was read to verify it, does not verify.
func (c *Chain) accept(ctx context.Context, n *node, u *lightclient.Update) error {
	period := c.Network.Period(uint64(u.SignatureSlot))
	if err := c.readHandovers(ctx, n, period); err != nil {
		late := (c.lastPeriod()+1)*c.Network.SlotsPerPeriod + lateEpochs*c.Network.SlotsPerEpoch
		if errors.Is(err, chain.ErrNoBeaconData) && uint64(u.FinalizedHeader.Beacon.Slot) >= late {
			err = fmt.Errorf("%w: %w", errNoHandover, err)
		}
		return err
	}
	keys, err := c.members(ctx, n, u, period)
	if err != nil {
		return err
	}
	step, err := c.signed(keys, c.committees[period], u, period, true)
	if err != nil {
		return err
	}
	execution, err := lightclient.NewExecution(u.FinalizedHeader)
	if err != nil {
		return unverified(err)
	}
	if err := c.Network.VerifyExecution(execution, step.Finalized); err != nil {
		return unverified(err)
	}
	a := anchor{slot: uint64(step.Finalized.Slot), period: period, step: step, execution: execution}
	if payload := u.FinalizedHeader.Execution; payload != nil {
		a.number = uint64(payload.BlockNumber)
	} else if a.number, err = c.Blocks.BlockNumber(ctx, chain.Hash(execution.BlockHash)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verified = c.Now()
	c.participation = float64(step.Signers()) / float64(c.Network.CommitteeSize)
	// Of finalized blocks a later one has a greater number. A chain for development that was
	// started anew contradicts that; nothing of the one before links to its blocks.
	if slices.ContainsFunc(c.anchors, a.contradicts) {
		c.Log.WarnContext(ctx, "finality: a finalized block contradicts earlier ones, which are forgotten", "block",
			a.number, "node", n.Name())
		c.anchors = nil
	}
	at, isThere := slices.BinarySearchFunc(c.anchors, a.number, func(a anchor, number uint64) int {
		return cmp.Compare(a.number, number)
	})
	switch {
	case !isThere:
		c.anchors = slices.Insert(c.anchors, at, a)
	case step.Signers() > c.anchors[at].step.Signers():
		c.anchors[at] = a
	}
	c.anchors = c.anchors[max(0, len(c.anchors)-maxAnchors):]
	newest := c.anchors[len(c.anchors)-1]
	c.newest = n.genesis.Add(c.seconds(newest.slot))
	if age := c.Now().Sub(c.newest); age > c.seconds(oldEpochs*c.Network.SlotsPerEpoch) {
		return fmt.Errorf("%s: %w: %v", n.Name(), errOld, age)
	}
	return nil
}

// signed returns an update as a step, and verifies that the committee of a period, with these members
// and this root, signed it. last means that it is the last step of an anchor, which is without the next
// committee. errUnverified.
func (c *Chain) signed(
	keys *lightclient.SyncCommittee, committee finality.Root, u *lightclient.Update, period uint64, last bool,
) (finality.Step, error) {
	step, err := lightclient.NewStep(keys, u)
	if err == nil {
		if last {
			step = step.WithoutNext()
		}
		err = c.Network.VerifyStep(&step, committee, period)
	}
	if err != nil {
		return finality.Step{}, unverified(err)
	}
	return step, nil
}

// contradicts reports whether an anchor with an earlier slot cannot be of the same chain.
func (a anchor) contradicts(earlier anchor) bool {
	return earlier.slot < a.slot && (earlier.number > a.number ||
		earlier.number == a.number && earlier.execution.BlockHash != a.execution.BlockHash)
}

// lastPeriod returns the newest period of which the committee is known.
func (c *Chain) lastPeriod() (last uint64) {
	for period := range c.committees {
		last = max(last, period)
	}
	return last
}

// readHandovers reads handovers until the committee of a period is known. errTooFar;
// chain.ErrNoBeaconData: the node has no handover that is needed.
func (c *Chain) readHandovers(ctx context.Context, n *node, period uint64) error {
	for {
		if _, known := c.committees[period]; known {
			return nil
		}
		last := c.lastPeriod()
		if period > last+maxCatchUp {
			return fmt.Errorf("%s: period %d, and the last known one is %d: %w", n.Name(), period, last, errTooFar)
		}
		if period < last {
			return fmt.Errorf("%s: an update of period %d, before all that is known", n.Name(), period)
		}
		if err := c.handOver(ctx, n, last, period > last); err != nil {
			return err
		}
		if _, known := c.committees[last+1]; !known {
			return fmt.Errorf("%s: the update of period %d does not hand over yet: %w", n.Name(), last,
				chain.ErrNoBeaconData)
		}
	}
}

// handOver reads the best update of a period, whose committee is known, and keeps it as a
// step where it hands over. One that was made early in its period does not: the state that
// it calls final is of the period before. over means that the period has ended.
func (c *Chain) handOver(ctx context.Context, n *node, period uint64, over bool) error {
	u, err := n.Update(ctx, period)
	if err != nil {
		return err
	}
	if u.NextSyncCommittee == nil || c.Network.Period(uint64(u.SignatureSlot)) != period ||
		c.Network.Period(uint64(u.AttestedHeader.Beacon.Slot)) != period ||
		c.Network.Period(uint64(u.FinalizedHeader.Beacon.Slot)) != period {
		return nil
	}
	keys, err := c.members(ctx, n, u, period)
	if err != nil {
		return err
	}
	step, err := c.signed(keys, c.committees[period], u, period, false)
	if err != nil {
		return err
	}
	if known, there := c.committees[period+1]; there && known != *step.NextCommittee {
		return unverified(fmt.Errorf("another committee of period %d than that which is known", period+1))
	}
	text, err := json.Marshal(step)
	if err != nil {
		return err
	}
	if err := c.Store.KeepStep(ctx, Step{
		Chain: c.Network.ChainID, Period: period, Signers: step.Signers(), Final: over, Step: text,
	}); err != nil {
		return err
	}
	c.committees[period+1], c.keys[period+1] = *step.NextCommittee, u.NextSyncCommittee
	c.steps[period] = over
	for old := range c.keys {
		if old+1 < period {
			delete(c.keys, old)
		}
	}
	return nil
}

// members returns the keys of the committee of a period, whose root is known: they come
// with our checkpoint of the period, with the handover of the period before, or, as a node that
// was synced later in the period has neither, with the block that an update of it calls final.
func (c *Chain) members(
	ctx context.Context, n *node, u *lightclient.Update, period uint64,
) (*lightclient.SyncCommittee, error) {
	if keys, ok := c.keys[period]; ok {
		return keys, nil
	}
	var keys *lightclient.SyncCommittee
	bootstrap := func(root finality.Root) {
		if boot, err := n.Bootstrap(ctx, root); err == nil {
			keys = &boot.CurrentSyncCommittee
		}
	}
	if root, ok := c.checkpoints[period]; ok {
		bootstrap(root)
	}
	var err error
	if keys == nil && period > 0 {
		var before *lightclient.Update
		if before, err = n.Update(ctx, period-1); err == nil {
			keys = before.NextSyncCommittee
		}
	}
	if final := u.FinalizedHeader.Beacon; keys == nil && c.Network.Period(uint64(final.Slot)) == period {
		bootstrap(final.HashTreeRoot())
	}
	switch {
	case keys == nil && err != nil:
		return nil, err
	case keys == nil:
		return nil, fmt.Errorf("%s: the keys of the committee of period %d: %w", n.Name(), period,
			chain.ErrNoBeaconData)
	case keys.HashTreeRoot() != c.committees[period]:
		return nil, unverified(fmt.Errorf("another committee of period %d", period))
	}
	c.keys[period] = keys
	return keys, nil
}

// keepHandovers reads the handover of the current period until there is one, and that of
// the period before once more, because later updates may have more signers.
func (c *Chain) keepHandovers(ctx context.Context) error {
	current, ok := c.newestAnchor()
	if !ok {
		return nil
	}
	var faults []error
	for period := current.period - min(current.period, 1); period <= current.period; period++ {
		if _, known := c.committees[period]; !known {
			continue
		}
		over := period < current.period
		if final, there := c.steps[period]; there && (final || !over) {
			continue
		}
		err := c.ask(ctx, c.nodes, func(n *node) error { return c.handOver(ctx, n, period, over) })
		if over { // one that has just begun may have none, and some nodes answer 500 then
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// keepCheckpoint keeps one checkpoint of our own in each period whose committee is known: the
// finalized block of the newest update.
func (c *Chain) keepCheckpoint(ctx context.Context) error {
	newest, ok := c.newestAnchor()
	if !ok {
		return nil
	}
	period := c.Network.Period(newest.slot)
	committee, known := c.committees[period]
	if _, there := c.checkpoints[period]; there || !known {
		return nil
	}
	return c.ask(ctx, c.nodes, func(n *node) error {
		checkpoint, _, err := c.bootstrap(ctx, n, newest.step.Finalized.HashTreeRoot())
		if err != nil {
			return err
		}
		if *checkpoint.Committee != committee {
			return unverified(fmt.Errorf("another committee of period %d", period))
		}
		return c.keepOwn(ctx, checkpoint)
	})
}

func (c *Chain) newestAnchor() (anchor, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.anchors) == 0 {
		return anchor{}, false
	}
	return c.anchors[len(c.anchors)-1], true
}
