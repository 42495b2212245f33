package app

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/services/verifier/internal/chain"
	"github.com/pforte/pforte/services/verifier/internal/config"
	"github.com/pforte/pforte/services/verifier/internal/payment"
	"github.com/pforte/pforte/services/verifier/internal/payment/facilitator"
)

// settings are the settings in the types of the packages that use them.
type settings struct {
	config.Config
	chains []chain.Config
	// networks are the beacon networks of the chains, in their order: nil for one without beacon nodes.
	networks []*finality.Network
	terms    payment.Terms
	key      *receipt.SigningKey
	keys     receipt.KeyDocument
	cdp      *facilitator.CDPKey
	log      *logSettings // nil without a log of receipts
	// paymentNodes are the URLs of the nodes of the payment network. Without any, only the
	// facilitator knows how a settlement ended.
	paymentNodes []string
	// paymentQuorum is how many of them must agree.
	paymentQuorum int
	// weak are warnings for the log at the start, about settings with which less is verified
	// than could be.
	weak []string
}

// load reads the settings, and returns the errors of all its parts at once.
func load(getenv func(string) string) (settings, error) {
	cfg, err := config.Load(getenv)
	s := settings{Config: cfg}
	errs := []error{err, s.loadChains(), s.loadTerms(), s.loadKeys(), s.loadFacilitator()}
	s.log, err = loadLog(s.Config.Log, s.key, s.PublicURL, s.CheckUpstreams)
	return s, errors.Join(append(errs, err)...)
}

// loadChains reads CHAINS_FILE, or the one chain of the CHAIN_ settings.
func (s *settings) loadChains() (err error) {
	c := s.Chain
	if c.File == "" {
		one := chain.Config{
			Name: c.Name, ID: c.ID, RPCURLs: trimmed(c.RPCURLs), Quorum: c.Quorum, RPCTimeout: c.RPCTimeout,
			MaxHeadAge: c.MaxHeadAge, BeaconURLs: trimmed(c.BeaconURLs), BeaconNetwork: c.BeaconNetwork,
		}
		s.chains = []chain.Config{one}
		network, err := loadNetwork(one)
		s.networks = []*finality.Network{network}
		if err != nil {
			err = fmt.Errorf("BEACON_NETWORK: %w", err)
		}
		if len(one.RPCURLs) > 0 { // else reported as missing
			err = errors.Join(config.ValidateChain(one), err)
		}
		return under("CHAIN_", err)
	}
	text, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("CHAINS_FILE: %w", err)
	}
	s.chains, err = config.ParseChains(text)
	errs := []error{err}
	for i, c := range s.chains {
		if err := s.CheckUpstreams(c.RPCURLs); err != nil {
			errs = append(errs, fmt.Errorf("chains.%d (%s): rpcUrls: %w", i, c.Name, err))
		}
		if err := s.CheckUpstreams(c.BeaconURLs); err != nil {
			errs = append(errs, fmt.Errorf("chains.%d (%s): beaconUrls: %w", i, c.Name, err))
		}
		network, err := loadNetwork(c)
		if s.networks = append(s.networks, network); err != nil {
			errs = append(errs, fmt.Errorf("chains.%d (%s): beaconNetwork: %w", i, c.Name, err))
		}
	}
	return under("CHAINS_FILE: ", errors.Join(errs...))
}

func trimmed(list []string) []string {
	var kept []string
	for _, text := range list {
		if text = strings.TrimSpace(text); text != "" {
			kept = append(kept, text)
		}
	}
	return kept
}

// under returns err with a prefix before each line; nil for nil.
func under(prefix string, err error) error {
	if err == nil {
		return nil
	}
	return errors.New(prefix + strings.ReplaceAll(err.Error(), "\n", "\n"+prefix))
}

// loadTerms sets the terms, completed with what is known of the network's token, and the nodes of
// the payment network.
func (s *settings) loadTerms() error {
	p := s.Payment
	s.terms = payment.Terms{
		Network: p.Network, Asset: p.Asset, AssetName: p.AssetName, AssetVersion: p.AssetVersion,
		PayTo: p.PayTo, Amount: p.Amount, MaxTimeout: time.Duration(p.MaxTimeoutSeconds) * time.Second, V1: p.V1,
	}
	s.paymentNodes = trimmed(p.RPCURLs)
	token, known := payment.KnownToken(p.Network)
	for _, c := range s.chains {
		if caip2(c.ID) != p.Network {
			continue
		}
		if c.USDToken != nil {
			token, known = payment.Token(*c.USDToken), true
		}
		if len(s.paymentNodes) == 0 {
			s.paymentNodes, s.paymentQuorum = c.RPCURLs, c.Agreeing()
		} else if len(s.paymentNodes) == 1 && c.Agreeing() > 1 {
			s.weak = append(s.weak,
				fmt.Sprintf("PAYMENT_RPC_URL: one node alone shows payments; without it %d of the %d nodes of the "+
					"chain %s would have to agree", c.Agreeing(), len(c.RPCURLs), c.Name))
		}
	}
	if s.paymentQuorum == 0 { // by the rule for the chain's nodes
		s.paymentQuorum = chain.Config{
			RPCURLs: s.paymentNodes, Quorum: min(s.Chain.Quorum, len(s.paymentNodes)),
		}.Agreeing()
	}
	if p.Confirm != config.ConfirmByFacilitator && len(s.paymentNodes) == 0 {
		return fmt.Errorf("PAYMENT_RPC_URL: no node of the payment network %s is configured, so it could not be "+
			"verified that a payment arrived; "+
			"set one, or set PAYMENT_CONFIRM=facilitator to rely on the facilitator", p.Network)
	}
	if p.Confirm == config.ConfirmByFacilitator && len(s.paymentNodes) > 0 {
		s.weak = append(s.weak, "PAYMENT_CONFIRM=facilitator: that a payment arrived is the word of the facilitator, "+
			"although a node of the payment network is known")
	}
	if t := &s.terms; known && (t.Asset == "" || strings.EqualFold(t.Asset, token.Address)) {
		t.Asset = cmp.Or(t.Asset, token.Address)
		t.AssetName = cmp.Or(t.AssetName, token.Name)
		t.AssetVersion = cmp.Or(t.AssetVersion, token.Version)
	}
	if p.PayTo == "" {
		return nil // reported as missing
	}
	return under("PAYMENT_: ", s.terms.Validate())
}

func (s *settings) loadKeys() error {
	others, err := retiredKeys(s.ReceiptRetiredKeys)
	if err != nil {
		err = fmt.Errorf("RECEIPT_RETIRED_KEYS_FILE: %w", err)
	}
	if s.ReceiptSigningKey == "" {
		return err // that it is missing is reported already
	}
	// An environment file can hold a PEM only with its line ends written as \n.
	key, faulty := receipt.ParseSigningKey([]byte(strings.ReplaceAll(s.ReceiptSigningKey, `\n`, "\n")))
	if faulty != nil {
		return errors.Join(fmt.Errorf("RECEIPT_SIGNING_KEY: %w", faulty), err)
	}
	s.key = key
	if err != nil || len(s.chains) == 0 {
		return err
	}
	if s.keys, err = receipt.NewKeyDocument(key, caip2(s.chains[0].ID), others...); err != nil {
		return fmt.Errorf("RECEIPT_RETIRED_KEYS_FILE: %w", err)
	}
	return nil
}

func retiredKeys(file string) ([]receipt.Key, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return nil, err
	}
	return receipt.ParseKeys(text)
}

func (s *settings) loadFacilitator() (err error) {
	f := &s.Facilitator
	if f.CDPKeyID == "" || f.CDPKeySecret == "" {
		return nil
	}
	f.URL = cmp.Or(f.URL, facilitator.CDPURL)
	if s.cdp, err = facilitator.ParseCDPKey(f.CDPKeyID, f.CDPKeySecret); err != nil {
		return fmt.Errorf("CDP_API_KEY_SECRET: %w", err)
	}
	return nil
}
