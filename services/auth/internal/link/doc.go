// Package link describes the links that one person may use once: an invite, a reset of
// a password, and the set-up of the household.
//
// A link's token is in the query of its address; of it, the store of links holds the hash only, so that its content
// yields no link. Looking at a link changes nothing, because messengers fetch links for previews.
package link
