package verification

import "strings"

// TransactionSchema is a JSON Schema of what ParseRequest reads, with texts for models.
const TransactionSchema = `{"type":"object","required":["transactionHash"],"additionalProperties":false,` +
	`"properties":{` +
	`"transactionHash":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"},` +
	`"expectations":{"type":"object","description":"what must hold; else the call is an error and costs nothing",` +
	`"additionalProperties":false,"properties":{` +
	`"status":{"type":"string","enum":["success","reverted"]},` +
	`"from":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$","description":"sender of the transaction"},` +
	`"to":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$",` +
	`"description":"address that the transaction calls; of a token transfer the token's contract"},` +
	`"selector":{"type":"string","pattern":"^0x[0-9a-fA-F]{8}$","description":"called function"},` +
	`"minConfirmations":{"type":"integer","minimum":1,"maximum":100000}}}}}`

// TransferSchema is TransactionSchema for what ParseTransferRequest reads after ExpandPayment and AtomicAmount.
const TransferSchema = `{"type":"object","additionalProperties":false,` +
	`"description":"transactionHash and transfer, or payment","properties":{` +
	`"transactionHash":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"},` +
	`"payment":{"type":"object","required":["response","sent"],"additionalProperties":false,` +
	`"description":"an x402 payment (exact), of anyone: the evidence that it was made, on the chain that it was ` +
	`made on","properties":{` +
	`"response":{"type":["string","object"],` +
	`"description":"PAYMENT-RESPONSE or its object, or a receipt of offer-receipt"},` +
	`"sent":{"type":["string","object"],"description":"PAYMENT-SIGNATURE or its object"}}},` +
	`"transfer":{"type":"object","required":["token","to"],"additionalProperties":false,` +
	`"description":"exactly one of amount, minAmount (in atomic units) and amountDecimal","properties":{` +
	`"token":{"type":"string","pattern":"^(native|0x[0-9a-fA-F]{40})$",` +
	`"description":"the token's contract, or native for the chain's own coin"},` +
	`"from":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$","description":"the payer"},` +
	`"to":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$","description":"the payee"},` +
	`"amount":{"type":"string","pattern":"^[1-9][0-9]{0,77}$","description":"exactly"},` +
	`"minAmount":{"type":"string","pattern":"^[1-9][0-9]{0,77}$","description":"at least"},` +
	`"amountDecimal":{"type":"string","pattern":"^[0-9]{1,78}([.][0-9]{1,18})?$",` +
	`"description":"exactly, such as 12.50, of a token of list_chains"},` +
	`"logPosition":{"type":"integer","minimum":0,"maximum":1000000,` +
	`"description":"place among the transaction's own logs, from 0"},` +
	`"authorization":{"type":"object","required":["authorizer","nonce"],"additionalProperties":false,` +
	`"description":"the EIP-3009 authorization of an x402 payment",` +
	`"properties":{"authorizer":{"type":"string","pattern":"^0x[0-9a-fA-F]{40}$"},` +
	`"nonce":{"type":"string","pattern":"^0x[0-9a-fA-F]{64}$"}}}}},` +
	`"expectations":{"type":"object","additionalProperties":false,` +
	`"properties":{"minConfirmations":{"type":"integer","minimum":1,"maximum":100000}}}}}`

// SchemaWith returns a schema of an object, which has properties, with others before them.
func SchemaWith(schema string, others ...string) string {
	const properties = `"properties":{`
	head, tail, _ := strings.Cut(schema, properties)
	return head + properties + strings.Join(append(others, tail), ",")
}
