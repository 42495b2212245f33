// Package beacon reads what a beacon node serves to light clients over the beacon API
// (ethereum/beacon-APIs). It verifies nothing; it bounds what it reads, in bytes and in
// time, and its errors hold no URL, which may have a key in it.
package beacon
