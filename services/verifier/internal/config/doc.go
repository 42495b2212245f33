// Package config reads and checks the settings of the verifier. The table of them in the README is made from it.
package config
