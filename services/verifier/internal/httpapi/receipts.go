package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pforte/pforte/pkg/receipt"
	"github.com/pforte/pforte/pkg/receipt/strictjson"
	"github.com/pforte/pforte/services/verifier/internal/payment"
)

// receiptsPath is followed by the SHA-256 of a sold answer, in lower-case hexadecimal digits. It is free.
const receiptsPath = "/v1/receipts/"

// cacheReceipt is the Cache-Control of a sold answer, which is found by its hash and so never changes.
const cacheReceipt = "public, max-age=86400, immutable"

var errManyLarge = fmt.Errorf("%w: many large answers are read now", errUnread)

// linkOf returns the address at which a sold answer can be read, and the hash in it.
func (a *api) linkOf(answer []byte) (link, hash string) {
	sum := sha256.Sum256(answer)
	hash = hex.EncodeToString(sum[:])
	return a.PublicURL + receiptsPath + hash, hash
}

// kept returns a sold answer by the digits of its hash. errUnknownReceipt: none is kept. errUnread:
// the ledger cannot be read.
func (a *api) kept(ctx context.Context, digits string) ([]byte, error) {
	hash, err := hex.DecodeString(digits)
	if err != nil || len(hash) != sha256.Size || hex.EncodeToString(hash) != digits {
		return nil, errUnknownReceipt
	}
	return a.receiptReads.read(ctx, func(ctx context.Context) ([]byte, error) {
		answer, err := a.Sold(ctx, payment.Digest(hash))
		if errors.Is(err, payment.ErrNotFound) {
			err = errUnknownReceipt
		}
		return answer.Bytes(), err
	})
}

// soldReceipt is GET receiptsPath: a sold answer, in the bytes in which it was sold.
func (a *api) soldReceipt(c echo.Context) error {
	ended := make(chan struct{})
	defer close(ended)
	answer, err := a.kept(c.Request().Context(), c.Param("hash"))
	if err == nil && !a.largeFree.hold(taken(len(answer), 1), ended) {
		err = errManyLarge
	}
	if err != nil {
		return err
	}
	return tagged(cacheReceipt, receipt.MediaTypeJSON, answer)(c)
}

// addReceipts adds the sold answers to the server as resources, by the addresses of linkOf.
func (a *api) addReceipts(server *mcp.Server) {
	prefix := a.PublicURL + receiptsPath
	server.AddResourceTemplate(&mcp.ResourceTemplate{
		Name: "receipt", Title: "Signed receipt with its proof", URITemplate: prefix + "{hash}",
		MIMEType: receipt.MediaTypeJSON, Description: "A sold answer, whole, by the SHA-256 of its bytes. Free.",
	}, func(ctx context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		answer, err := a.kept(ctx, strings.TrimPrefix(request.Params.URI, prefix))
		caller, _ := ctx.Value(mcpCallerKey{}).(mcpCaller) // as of answerTool
		if err == nil && !a.largeFree.hold(taken(len(answer), rewritten), caller.ended) {
			err = errManyLarge
		}
		switch {
		case errors.Is(err, errUnknownReceipt):
			return nil, mcp.ResourceNotFoundError(request.Params.URI)
		case err != nil:
			a.Log.WarnContext(ctx, "cannot read a receipt", "error", err)
			return nil, errUnread
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
			URI: request.Params.URI, MIMEType: receipt.MediaTypeJSON, Text: string(answer),
		}}}, nil
	})
}

// proofForm is how a tool's call wants the proof, which may take many times the receipt's bytes.
type proofForm string

const (
	proofLink   proofForm = "link"
	proofInline proofForm = "inline"
	proofNone   proofForm = "none"
)

// proofArgument is the schema of the argument proof.
const proofArgument = `"proof":{"type":"string","enum":["link","inline","none"],` +
	`"description":"the proof: by a free link (default), in the answer, or not at all"}`

// proofOf reads the argument proof; nil stands for proofLink. *strictjson.Error: it is no proofForm.
func proofOf(argument *string) (proofForm, error) {
	if argument == nil {
		return proofLink, nil
	}
	switch form := proofForm(*argument); form {
	case proofLink, proofInline, proofNone:
		return form, nil
	}
	return "", &strictjson.Error{Pointer: "/proof", Reason: "is none of link, inline and none"}
}

// soldObject is the object beside the texts of a sold answer.
type soldObject struct {
	// Verdict is the first text.
	Verdict string    `json:"verdict"`
	Proof   proofForm `json:"proof"`
	// Hash is the SHA-256 of the whole answer. Link is its address, only with proofLink.
	Hash string `json:"hash"`
	Link string `json:"link,omitempty"`
}

const verdictEnd = ". Proven by the block's roots; canonical and final by the signature."

// soldTool returns a sold answer as a tool's result: the verdict as text for models, and the signed
// receipt, which has its proof only with proofInline. With proofLink the result also says where the
// whole answer is: by a member of its object and, where links says that the client reads them, by a
// link beside the texts.
func (a *api) soldTool(answer []byte, form proofForm, links bool) (toolResult, error) {
	signed, about, err := withoutProof(answer)
	if err != nil {
		return toolResult{}, err
	}
	object := soldObject{Verdict: about.Summary() + verdictEnd, Proof: form}
	link, hash := a.linkOf(answer)
	object.Hash = hash
	found := toolResult{outcome: outcomeOK}
	switch form {
	case proofInline:
		signed = answer
	case proofLink:
		object.Link = link
	case proofNone:
	}
	found.content = []mcp.Content{&mcp.TextContent{Text: object.Verdict}, &mcp.TextContent{Text: string(signed)}}
	if form == proofLink && links {
		found.content = append(found.content, &mcp.ResourceLink{
			URI: link, Name: "receipt with proof", MIMEType: receipt.MediaTypeJSON, Size: new(int64(len(answer))),
		})
	}
	found.body, err = json.Marshal(object)
	return found, err
}

// withoutProof returns an answer of ours without its proof, which comes last, and the receipt in it.
func withoutProof(answer []byte) (signed []byte, about receipt.Receipt, err error) {
	members := json.NewDecoder(bytes.NewReader(answer))
	if _, err = members.Token(); err != nil {
		return nil, about, fmt.Errorf("read an answer: %w", err)
	}
	end := int64(0)
	for members.More() {
		name, err := members.Token()
		if err != nil {
			return nil, about, fmt.Errorf("read an answer: %w", err)
		}
		var value json.RawMessage
		switch name {
		case "proof":
			return append(answer[:end:end], '}'), about, nil
		case "receipt":
			err = members.Decode(&about)
		default:
			err = members.Decode(&value)
		}
		if err != nil {
			return nil, about, fmt.Errorf("read an answer: %w", err)
		}
		end = members.InputOffset()
	}
	return answer, about, nil
}
