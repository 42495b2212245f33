// Package beacontest is the consensus layer of a development chain, without
// consensus: a beacon block for each execution block, states and bodies that hold
// only what light clients ask for, and sync committees whose secret keys are public. It
// serves the part of the beacon API that a light client needs, so that finality can be
// proven and checked without a beacon node, and it breaks the rules where a test says so.
//
// A slot is the second of a block's time, so that slots go on where a development chain
// begins anew while what its light clients keep does not. A period has 64 slots, as in
// the minimal preset, so that a committee hands over every minute; committees have 512
// keys, as in the mainnet preset. The committees of even periods are one, those of odd
// periods another, in every run. The execution chain's genesis block has no beacon block.
//
// It must never stand for a real network: everyone can sign for its committees.
package beacontest
