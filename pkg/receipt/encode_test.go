package receipt_test

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/pforte/pforte/pkg/receipt/internal/rlp"
)

// object is a JSON-RPC object: a header, a transaction, a receipt.
type object map[string]any

// The members of a header in their order; those from baseFeePerGas on came with
// later forks and are absent before.
var headerMembers = strings.Fields(`parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot
	logsBloom difficulty number gasLimit gasUsed timestamp extraData mixHash nonce
	baseFeePerGas withdrawalsRoot blobGasUsed excessBlobGas parentBeaconBlockRoot requestsHash`)

// The members of a transaction's payload in their order, by type.
var transactionMembers = map[string][]string{
	"0x0":  strings.Fields("nonce gasPrice gas to value input v r s"),
	"0x1":  strings.Fields("chainId nonce gasPrice gas to value input accessList v r s"),
	"0x2":  strings.Fields("chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList v r s"),
	"0x3":  strings.Fields("chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList maxFeePerBlobGas blobVersionedHashes v r s"),
	"0x4":  strings.Fields("chainId nonce maxPriorityFeePerGas maxFeePerGas gas to value input accessList authorizationList v r s"),
	"0x6a": strings.Fields("chainId input"),
	"0x7e": strings.Fields("sourceHash from to mint value gas isSystemTx input"),
}

// byteMembers are bytes of their own length; all other texts are numbers, which
// have no leading zeros.
var byteMembers = set(`parentHash sha3Uncles miner stateRoot transactionsRoot receiptsRoot logsBloom extraData
	mixHash withdrawalsRoot parentBeaconBlockRoot requestsHash to from input sourceHash root address data`)

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, word := range strings.Fields(words) {
		out[word] = true
	}
	return out
}

func encodeHeader(header object) []byte {
	var items []byte
	for i, name := range headerMembers {
		if _, ok := header[name]; !ok && i >= 15 {
			continue
		}
		if name == "nonce" { // eight bytes in a header, a number in other places
			items = rlp.AppendString(items, unhex(header.text(name)))
			continue
		}
		items = append(items, encodeMember(name, header[name])...)
	}
	return rlp.AppendList(nil, items)
}

func encodeTransaction(tx object) []byte {
	members, ok := transactionMembers[tx.text("type")]
	if !ok {
		panic("no encoding of type " + tx.text("type"))
	}
	var items []byte
	for _, name := range members {
		items = append(items, encodeMember(name, tx[name])...)
	}
	return envelope(tx.text("type"), rlp.AppendList(nil, items))
}

func encodeReceipt(r object) []byte {
	first := "status"
	if _, ok := r[first]; !ok {
		first = "root"
	}
	items := encodeMember(first, r[first])
	items = append(items, encodeMember("cumulativeGasUsed", r["cumulativeGasUsed"])...)
	items = append(items, encodeMember("logsBloom", r["logsBloom"])...)
	var logs []byte
	for _, log := range r["logs"].([]any) {
		log := object(log.(map[string]any))
		members := encodeMember("address", log["address"])
		members = append(members, encodeMember("topics", log["topics"])...)
		logs = rlp.AppendList(logs, append(members, encodeMember("data", log["data"])...))
	}
	items = rlp.AppendList(items, logs)
	if version, ok := r["depositReceiptVersion"]; ok && r.text("type") == "0x7e" {
		items = append(items, encodeMember("depositNonce", r["depositNonce"])...)
		items = append(items, encodeMember("depositReceiptVersion", version)...)
	}
	return envelope(r.text("type"), rlp.AppendList(nil, items))
}

// envelope puts the EIP-2718 type in front; legacy has none.
func envelope(kind string, payload []byte) []byte {
	n, err := strconv.ParseUint(strings.TrimPrefix(kind, "0x"), 16, 8)
	if err != nil {
		panic(err)
	}
	if n == 0 {
		return payload
	}
	return append([]byte{byte(n)}, payload...)
}

func encodeMember(name string, value any) []byte {
	switch value := value.(type) {
	case nil:
		if name == "accessList" {
			return rlp.AppendList(nil, nil)
		}
		return rlp.AppendString(nil, nil)
	case bool:
		if value {
			return rlp.AppendUint(nil, 1)
		}
		return rlp.AppendUint(nil, 0)
	case string:
		if byteMembers[name] {
			return rlp.AppendString(nil, unhex(value))
		}
		return rlp.AppendString(nil, number(value).Bytes())
	case []any:
		return encodeList(name, value)
	default:
		panic(fmt.Sprintf("member %s is a %T", name, value))
	}
}

func encodeList(name string, list []any) []byte {
	var items []byte
	for _, entry := range list {
		switch entry := entry.(type) {
		case string: // a topic, a storage key, a blob's hash
			items = rlp.AppendString(items, unhex(entry))
		case map[string]any:
			items = append(items, encodeEntry(name, entry)...)
		}
	}
	return rlp.AppendList(nil, items)
}

func encodeEntry(name string, entry object) []byte {
	members := []string{"address", "storageKeys"} // EIP-2930
	if name == "authorizationList" {
		members = []string{"chainId", "address", "nonce", "yParity", "r", "s"} // EIP-7702
	}
	var items []byte
	for _, member := range members {
		items = append(items, encodeMember(member, entry[member])...)
	}
	return rlp.AppendList(nil, items)
}

func (o object) text(name string) string {
	text, _ := o[name].(string)
	return text
}

func unhex(text string) []byte {
	out, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		panic(err)
	}
	return out
}

func number(text string) *big.Int {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(text, "0x"), 16)
	if !ok {
		panic("not a number: " + text)
	}
	return n
}
