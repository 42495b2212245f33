module github.com/pforte/pforte/pkg/receipt

go 1.26.0

require (
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.0
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3
	github.com/google/go-cmp v0.7.0
	golang.org/x/crypto v0.58.0
	golang.org/x/mod v0.42.0
)

require github.com/bits-and-blooms/bitset v1.20.0 // indirect

require (
	github.com/consensys/gnark-crypto v0.18.1
	golang.org/x/sys v0.49.0 // indirect
)
