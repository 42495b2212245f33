package lightclient_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/pforte/pforte/pkg/receipt/finality"
	"github.com/pforte/pforte/pkg/receipt/finality/lightclient"
)

// minimal is the network of testdata/spec/config.yaml and meta.yaml.
func minimal(t testing.TB) *finality.Network {
	t.Helper()
	n, err := finality.ParseNetwork([]byte(`{"name":"minimal","chain":"eip155:1",
		"genesisValidatorsRoot":"0x0a08c27fe4ece2483f9e581f78c66379a06f96e9c24cd1390594ff939b26f95b",
		"secondsPerSlot":6,"slotsPerEpoch":8,"slotsPerPeriod":64,"committeeSize":32,"forks":[
		{"name":"altair","epoch":"0","version":"0x01000001"},{"name":"bellatrix","epoch":"0","version":"0x02000001"},
		{"name":"capella","epoch":"0","version":"0x03000001"},{"name":"deneb","epoch":"0","version":"0x04000001"},
		{"name":"electra","epoch":"0","version":"0x05000001"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The updates of the consensus specifications' test light_client_sync, in its order. What
// that test expects of the finalized header is expected here, but for its forced updates:
// only what a committee calls final counts here, and only a final next committee signs.
func TestSpec_UpdatesAreJudgedAsThere(t *testing.T) {
	n := minimal(t)
	d := decoder{n}
	boot := d.bootstrap(t, spec(t, "bootstrap"))
	checkpoint := lightclient.NewCheckpoint(boot)
	if err := n.VerifyCheckpoint(checkpoint); err != nil || checkpoint.Root.String() != "0x381b93f69ccc772fbe71d8093f0560343ca3e5c6893dcaae7e5f677ecfd823fb" {
		t.Fatal(checkpoint.Root, err)
	}
	committees := map[uint64]*lightclient.SyncCommittee{n.Period(uint64(checkpoint.Header.Slot)): &boot.CurrentSyncCommittee}
	for _, c := range []struct {
		update                    string
		next                      bool   // the update has the next committee
		refused, handOver         error  // nil: final; nil: the next committee is final too
		beaconRoot, executionRoot string // of the finalized header, as steps.yaml has it
	}{
		{
			"0xed3633b21718e0ad4f0eafca7349e20d78c2bd1128e9fb52ce63e60732635ade_sf", true, nil, nil,
			"0x811ca9d0c05688129e10bc2f3cc9d093aa1c7a18bedf373cd890ae0e84229a3b", "0xbe8ef239954e18aace5296e61e00e5a70681274091447e9115fd63eed1ae262c",
		},
		{
			"0x6ad1512a26e6b430d9916050f6bee1fde680c1fd1057f5d82a9695f7ba05b1ab_sf", true, nil, nil,
			"0x2eceb4af9153fa28120ba3103fa2fef816fe7bda3b1bb3c6b88171564c7c44ce", "0xc6d109b91833839d8b15f357df3ceb4f7ac65fdb7db2d9d3988f581f16d6c738",
		},
		{
			"0xaea76277f39fc065517107b38db4e0b25ac9b839c1e7d26d8c5ae67faa16e5dc_xf", false, nil, nil,
			"0xb09d30fb082dd3f32fd702a572c77b746fd9dbca32acac546f055176f33f7dea", "0x6258bcdaf6cd11046cd970543d38b35ba79933536a4135b6f2d6c7b629994186",
		},
		// Without a finalized header.
		{"0x385feaf30f37df7de56e32ab099bc5875d04af4af34dfd0d517b2a19d7cbc515_sx", true, finality.ErrBranch, nil, "", ""},
		// Its finalized header is of the period before.
		{
			"0x691c9ff80a4820d209c0fc3d044bb8a8256de549870d2e753ef35785be263d88_sf", true, nil, finality.ErrCommittee,
			"0xb09d30fb082dd3f32fd702a572c77b746fd9dbca32acac546f055176f33f7dea", "0x6258bcdaf6cd11046cd970543d38b35ba79933536a4135b6f2d6c7b629994186",
		},
		// Signed by committees that only a forced update makes known.
		{"0xbc05d63421b6884cf40b3f416c36ea0c6612b68220e6dc3ede7b754e88316cfe_xx", false, errNoCommittee, nil, "", ""},
		{"0xaab2b7f33438b2f19579aba316b4e90ac2a8778370ec47d7a2c827ad8cecf1ba_sf", true, errNoCommittee, nil, "", ""},
		{"0x6120c479db1409967248efa2f3fa1cb7a29c237daccb43922ab68cf4b73b1344_sf", true, errNoCommittee, nil, "", ""},
	} {
		u := d.update(t, spec(t, "update_"+c.update), true)
		if !c.next { // zeros
			u.NextSyncCommittee, u.NextSyncCommitteeBranch = nil, nil
		}
		period := n.Period(uint64(u.SignatureSlot))
		signer := committees[period]
		err := errNoCommittee
		if signer != nil {
			step, made := lightclient.NewStep(signer, u)
			if made != nil {
				t.Fatal(made)
			}
			if c.next {
				if err := n.VerifyStep(&step, signer.HashTreeRoot(), period); !errors.Is(err, c.handOver) && c.refused == nil {
					t.Errorf("%s: hand over: %v, want %v", c.update, err, c.handOver)
				} else if err == nil {
					committees[period+1] = u.NextSyncCommittee
				}
			}
			last := step.WithoutNext()
			err = n.VerifyStep(&last, signer.HashTreeRoot(), period)
		}
		if !errors.Is(err, c.refused) {
			t.Errorf("%s: %v, want %v", c.update, err, c.refused)
		}
		if err != nil {
			continue
		}
		if root := u.FinalizedHeader.Beacon.HashTreeRoot().String(); root != c.beaconRoot {
			t.Errorf("%s: finalized %s, want %s", c.update, root, c.beaconRoot)
		}
		if root, err := u.FinalizedHeader.Execution.HashTreeRoot(); err != nil || root.String() != c.executionRoot {
			t.Errorf("%s: execution %s, want %s", c.update, root, c.executionRoot)
		}
		execution, err := lightclient.NewExecution(u.FinalizedHeader)
		if err == nil {
			err = n.VerifyExecution(execution, finality.BeaconHeader(u.FinalizedHeader.Beacon))
		}
		if err != nil {
			t.Errorf("%s: %v", c.update, err)
		}
	}
}

var errNoCommittee = errors.New("the committee of the period is not known")

// spec reads a file of the test, which is in snappy's block format.
func spec(t testing.TB, name string) []byte {
	t.Helper()
	data := file(t, "spec/"+name+".ssz_snappy")
	size, n := binary.Uvarint(data)
	data = data[n:]
	var out []byte
	for len(data) > 0 {
		tag := int(data[0])
		if tag&3 == 0 { // bytes as they are
			length, head := tag>>2+1, 1
			if more := tag>>2 - 59; more > 0 {
				var word [4]byte
				copy(word[:], data[1:1+more])
				length, head = int(binary.LittleEndian.Uint32(word[:]))+1, 1+more
			}
			out = append(out, data[head:head+length]...)
			data = data[head+length:]
			continue
		}
		// a copy of what is already there, with an offset of one, two or four bytes
		length, offset, head := tag>>2+1, 0, 0
		switch tag & 3 {
		case 1:
			length, offset, head = tag>>2&7+4, tag>>5<<8|int(data[1]), 2
		case 2:
			offset, head = int(binary.LittleEndian.Uint16(data[1:])), 3
		case 3:
			offset, head = int(binary.LittleEndian.Uint32(data[1:])), 5
		}
		for range length {
			out = append(out, out[len(out)-offset])
		}
		data = data[head:]
	}
	if uint64(len(out)) != size {
		t.Fatalf("%s: %d bytes, not %d", name, len(out), size)
	}
	return out
}
