package payment

// Token is a USD stablecoin with EIP-3009 and its EIP-712 domain.
type Token struct{ Address, Name, Version string }

// KnownToken gives the native USD stablecoin of a CAIP-2 network, or false. The
// names are what wallets sign for (packages @x402/evm 2.27.0 and x402 1.2.0,
// Circle's list of USDC contracts); they differ from network to network.
func KnownToken(network string) (Token, bool) {
	switch network {
	case "eip155:1":
		return Token{"0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", "USD Coin", "2"}, true
	case "eip155:10":
		return Token{"0x0b2C639c533813f4Aa9D7837CAf62653d097Ff85", "USD Coin", "2"}, true
	case "eip155:137":
		return Token{"0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359", "USD Coin", "2"}, true
	case "eip155:8453":
		return Token{"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913", "USD Coin", "2"}, true
	case "eip155:42161":
		return Token{"0xaf88d065e77c8cC2239327C5EDb3A432268e5831", "USD Coin", "2"}, true
	case "eip155:43113":
		return Token{"0x5425890298aed601595a70AB815c96711a31Bc65", "USD Coin", "2"}, true
	case "eip155:43114":
		return Token{"0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E", "USD Coin", "2"}, true
	case "eip155:80002":
		return Token{"0x41E94Eb019C0762f9Bfcf9Fb1E58725BfB0e7582", "USDC", "2"}, true
	case "eip155:84532":
		return Token{"0x036CbD53842c5426634e7929541eC2318f3dCF7e", "USDC", "2"}, true
	case "eip155:421614":
		return Token{"0x75faf114eafb1BDbe2F0316DF893fd58CE46AA4d", "USD Coin", "2"}, true
	}
	return Token{}, false
}
