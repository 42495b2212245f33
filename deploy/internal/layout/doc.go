// Package layout holds which programs a stack of Pforte has, on which addresses
// they listen, the settings of each, and what of it is kept.
//
// It owns the state folder: databases and logs, and the secrets that package secrets
// makes. The local stack and the tests differ only in addresses, folder and options.
package layout
