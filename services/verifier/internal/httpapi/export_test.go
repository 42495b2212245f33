package httpapi

import "encoding/json"

// SoldTool returns the result of a tool that sold an answer, as JSON.
func SoldTool(publicURL string, answer []byte) ([]byte, error) {
	a := &api{Options: Options{PublicURL: publicURL}}
	found, err := a.soldTool(answer, proofLink, true)
	if err != nil {
		return nil, err
	}
	return json.Marshal(found.encode())
}
