// Package devnet is the development network: one go-ethereum node in this
// process with blocks that keep coming and a finalized head that follows, a USD
// token on it (contract/USDCoin.sol), an account that has all of it at first, an
// x402 facilitator that really settles there, and with BEACON_ADDR a beacon
// node (package beacontest) whose committees sign what the node calls final.
//
// The node is geth's own, driven through the Engine API as a consensus client
// drives it: the simulated beacon of ethclient/simulated finalizes every 32nd
// block only and moves the chain's clock ahead of the wall's when blocks come
// faster than one a second, which breaks the time windows of payments.
//
// Everything is kept in memory and starts anew with the process; the chain's
// addresses are the same on every start. Its keys are public: it must never
// stand for a real network, and nothing here is meant to be reachable from
// outside.
package devnet
