// Package e2e uses the whole stack as its users do: people with Chromium, a frontend, an
// application behind the guard, also with other proxies, and buyers with the official payment
// clients, with real programs, on free ports and with a state of their own.
//
// Most exchanges pass a recorder that checks them against the OpenAPI document of
// the service that answered. `make e2e` builds the programs and runs this;
// `make test` leaves it out unless PKG names it.
package e2e
