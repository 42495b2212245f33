// Package beacontest is the consensus layer of a development chain, without
// consensus: a beacon block for each execution block, states and bodies that hold
// only what light clients ask for, and sync committees whose secret keys are public. It
// serves the part of the beacon API that a light client needs, so that finality can be
// proven and checked without a beacon node, and it breaks the rules where a test says so.
//
// A slot lasts a second, and a block's slot follows from its time, so that slots go on rising when
// a development chain begins anew and its light clients keep their state. A period has 64 slots, as
// in the minimal preset, so that a committee hands over about every minute; committees have 512
// keys, as in the mainnet preset. All even periods have one committee and all odd periods another. Both
// follow from the network's name, so that they are the same in every run. The execution chain's genesis
// block has no beacon block.
//
// It must never stand for a real network: everyone can sign for its committees.
package beacontest
