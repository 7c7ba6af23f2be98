package app

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/internal/region"
)

// figureStore is where figures are kept: the rules database. At a read replica of it, a node sends its own to the
// primary.
type figureStore struct {
	*database.DB
	// primary is the URL of the nodes at the primary, "" if it is not set, and token the credential for them.
	primary string
	token   func() string
	client  *http.Client
}

// newFigureStore returns the store of figures. config is the TLS configuration for other regions; nil without regions.
func newFigureStore(db *database.DB, primary string, token func() string, config func() *tls.Config) *figureStore {
	if config == nil {
		config = func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
	}
	return &figureStore{DB: db, primary: strings.TrimSuffix(primary, "/"), token: token, client: regionClient(config, 1)}
}

// mostReceipt bounds the answer of the primary.
const mostReceipt = 4096

// WriteStats implements history.Store.
func (f *figureStore) WriteStats(ctx context.Context, rows []history.LiveRow) (leftOut int, err error) {
	if !f.Replica() {
		return f.DB.WriteStats(ctx, rows)
	}
	if f.primary == "" {
		return 0, errors.New("the rules database is a read replica, so set SLUICE_PRIMARY_URL and SLUICE_REGION_TOKEN")
	}
	answer, err := region.Post(ctx, f.client, f.primary+history.PathOfRows, history.MediaType, f.token(),
		history.EncodeRows(rows), mostReceipt)
	if err == nil {
		err = answer.Refusal()
	}
	if err != nil {
		return 0, fmt.Errorf("send figures to SLUICE_PRIMARY_URL: %w", err)
	}
	var receipt struct {
		LeftOut int `json:"left_out"`
	}
	if err := json.Unmarshal(answer.Body, &receipt); err != nil {
		return 0, fmt.Errorf("send figures to SLUICE_PRIMARY_URL: read the answer: %w", err)
	}
	return receipt.LeftOut, nil
}

var _ history.Store = (*figureStore)(nil)
