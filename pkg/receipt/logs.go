package receipt

import (
	"math/big"

	"github.com/pforte/pforte/pkg/receipt/internal/evm"
)

// Log is an event of the transaction, as its proven receipt holds it.
type Log struct {
	Address string   `json:"address"` // the contract that wrote it
	Topics  []string `json:"topics"`
	Data    Hex      `json:"data"`
}

// Transfer is a token movement as the token's own contract logged it (ERC-20).
// It is worth what that contract is worth: everyone can write a token that logs
// what it likes, so compare Token with the address that you trust.
type Transfer struct {
	Token string `json:"token"`
	From  string `json:"from"`
	To    string `json:"to"`
	Value string `json:"value"` // atomic units, decimal
}

// transferTopic is the Keccak-256 of Transfer(address,address,uint256).
const transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

// Transfer reads the log as an ERC-20 transfer; false when it is none. (ERC-721
// has the same event with the token's number as a fourth topic.)
func (l Log) Transfer() (Transfer, bool) {
	if len(l.Topics) != 3 || l.Topics[0] != transferTopic || len(l.Data) != 32 {
		return Transfer{}, false
	}
	from, ok := addressOf(l.Topics[1])
	to, also := addressOf(l.Topics[2])
	if !ok || !also {
		return Transfer{}, false
	}
	return Transfer{Token: l.Address, From: from, To: to, Value: new(big.Int).SetBytes(l.Data).String()}, true
}

// addressOf reads a topic of 32 bytes that holds an address.
func addressOf(topic string) (string, bool) {
	const padding = "0x000000000000000000000000"
	if len(topic) != 66 || topic[:len(padding)] != padding {
		return "", false
	}
	return "0x" + topic[len(padding):], true
}

func logs(in []evm.Log) []Log {
	out := make([]Log, len(in))
	for i, log := range in {
		out[i] = Log{Address: hexText(log.Address[:]), Topics: make([]string, len(log.Topics)), Data: log.Data}
		for j, topic := range log.Topics {
			out[i].Topics[j] = hexText(topic[:])
		}
	}
	return out
}
