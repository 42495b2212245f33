package paywall

// SpendAddress takes an attempt of a client address, as a call that is refused does.
func (w *Paywall) SpendAddress(address string) error {
	return w.spendAddress(&call{Order: Order{Address: address}}, 1)
}
