// Package layout holds which programs a stack of Pforte has, on which addresses
// they listen, the settings of each, and what of it is kept.
//
// It owns the state folder: secrets that are made once, databases, logs. The
// local stack and the journeys differ only in addresses, folder and options.
package layout
