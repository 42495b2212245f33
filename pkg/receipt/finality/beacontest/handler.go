package beacontest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// maxUpdates is MAX_REQUEST_LIGHT_CLIENT_UPDATES of the specification.
const maxUpdates = 128

// failure is an error answer of the beacon API.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (f failure) Error() string { return f.Message }

// data is an answer of the beacon API without a version.
type data struct {
	Data any `json:"data"`
}

// Handler serves the part of the beacon API that a light client needs, in JSON. PUT
// /faults with the JSON of Faults calls Break.
func (b *Beacon) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, answer := range map[string]func(*http.Request) (any, error){
		"GET /eth/v1/beacon/genesis":                       b.genesis,
		"GET /eth/v1/config/spec":                          b.spec,
		"GET /eth/v1/beacon/headers/finalized":             b.finalizedHeader,
		"GET /eth/v1/beacon/light_client/bootstrap/{root}": b.bootstrap,
		"GET /eth/v1/beacon/light_client/updates":          b.updates,
		"GET /eth/v1/beacon/light_client/finality_update":  b.finalityUpdate,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			answered, err := any(nil), error(failure{http.StatusServiceUnavailable, "the node is down"})
			if !b.faults.Load().Down {
				answered, err = answer(r)
			}
			status := http.StatusOK
			if err != nil {
				f := failure{http.StatusInternalServerError, err.Error()}
				if errors.Is(err, errNotFound) {
					f.Code = http.StatusNotFound
				}
				_ = errors.As(err, &f)
				status, answered = f.Code, f
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(answered)
		})
	}
	mux.HandleFunc("PUT /faults", func(w http.ResponseWriter, r *http.Request) {
		var f Faults
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
		d.DisallowUnknownFields()
		if err := d.Decode(&f); err != nil || f.Signers < 0 || f.Signers > committeeSize {
			http.Error(w, "not the JSON of faults", http.StatusBadRequest)
			return
		}
		b.Break(f)
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

func (b *Beacon) genesis(*http.Request) (any, error) {
	return data{map[string]any{
		"genesis_time":            strconv.Itoa(GenesisTime),
		"genesis_validators_root": b.network.GenesisValidatorsRoot,
		"genesis_fork_version":    b.network.Forks[0].Version,
	}}, nil
}

func (b *Beacon) spec(*http.Request) (any, error) {
	spec := map[string]string{
		"CONFIG_NAME":                      b.network.Name,
		"SECONDS_PER_SLOT":                 strconv.FormatUint(b.network.SecondsPerSlot, 10),
		"SLOTS_PER_EPOCH":                  strconv.Itoa(slotsPerEpoch),
		"EPOCHS_PER_SYNC_COMMITTEE_PERIOD": strconv.Itoa(slotsPerPeriod / slotsPerEpoch),
		"SYNC_COMMITTEE_SIZE":              strconv.Itoa(committeeSize),
		"DEPOSIT_CHAIN_ID":                 strings.TrimPrefix(b.network.ChainID, "eip155:"),
	}
	for _, f := range b.network.Forks {
		name := strings.ToUpper(f.Name)
		version, err := f.Version.MarshalText()
		if err != nil {
			return nil, err
		}
		spec[name+"_FORK_VERSION"], spec[name+"_FORK_EPOCH"] = string(version), strconv.FormatUint(uint64(f.Epoch), 10)
	}
	return data{spec}, nil
}

func (b *Beacon) finalizedHeader(r *http.Request) (any, error) {
	h, err := b.Finalized(r.Context())
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"execution_optimistic": false, "finalized": true,
		"data": map[string]any{
			"root": h.HashTreeRoot(), "canonical": true,
			// Nobody checks the proposer's signature.
			"header": map[string]any{"message": lightclient.BeaconHeader(h), "signature": finality.Signature{0xc0}},
		},
	}, nil
}

func (b *Beacon) bootstrap(r *http.Request) (any, error) {
	var root finality.Root
	if err := root.UnmarshalText([]byte(r.PathValue("root"))); err != nil {
		return nil, failure{http.StatusBadRequest, "the root is not 0x and 64 hexadecimal digits"}
	}
	found, err := b.Bootstrap(r.Context(), root)
	if err != nil {
		return nil, err
	}
	return lightclient.Versioned[*lightclient.Bootstrap]{Version: b.fork(), Data: found}, nil
}

func (b *Beacon) updates(r *http.Request) (any, error) {
	query := r.URL.Query()
	start, startErr := strconv.ParseUint(query.Get("start_period"), 10, 64)
	count, countErr := strconv.ParseUint(query.Get("count"), 10, 64)
	if startErr != nil || countErr != nil || count == 0 || start > 1<<32 {
		return nil, failure{http.StatusBadRequest, "start_period and count are numbers"}
	}
	list := []lightclient.Versioned[*lightclient.Update]{}
	for period := start; period < start+min(count, maxUpdates); period++ {
		u, err := b.Update(r.Context(), period)
		if errors.Is(err, errNotFound) {
			if b.faults.Load().Withhold {
				break
			}
			// As Lodestar answers, also where earlier periods of the range are there.
			err = failure{
				http.StatusInternalServerError, "No partialUpdate available for period " + strconv.FormatUint(period,
					10),
			}
		}
		if err != nil {
			return nil, err
		}
		list = append(list, lightclient.Versioned[*lightclient.Update]{Version: b.fork(), Data: u})
	}
	return list, nil
}

func (b *Beacon) finalityUpdate(r *http.Request) (any, error) {
	u, err := b.FinalityUpdate(r.Context())
	if err != nil {
		return nil, err
	}
	return lightclient.Versioned[*lightclient.Update]{Version: b.fork(), Data: u}, nil
}
