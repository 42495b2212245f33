package paywall

// SpendAddress takes an attempt of a client address, as a call that is refused does.
func (g *Gate) SpendAddress(address string) error {
	return g.spendAddress(&call{Order: Order{Address: address}})
}
