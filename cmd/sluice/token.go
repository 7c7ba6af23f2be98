package main

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"sluice/internal/access"
	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/rules/field"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create a token and print its secret."`
	List   tokenListCmd   `cmd:"" help:"List all tokens."`
	Rotate tokenRotateCmd `cmd:"" help:"Replace a token by a new one with the same name, scopes and lifetime, and print its secret."`
	Revoke tokenRevokeCmd `cmd:"" help:"Revoke a token (effective within a second)."`
}

type tokenCreateCmd struct {
	config.Storage `embed:""`
	Name           string        `arg:"" help:"Name of the token, such as gateway-eu."`
	Scopes         string        `name:"scopes" default:"check" placeholder:"SCOPE,..." help:"Scopes: check, counters (reset, and refund without a request_id), deferred (release deferred requests), regions (what other regions need), rules:read, rules:write (includes rules:read), admin (includes all)."`
	Expires        time.Duration `name:"expires" placeholder:"TIME" help:"Lifetime, such as 720h; unlimited if not set."`
	JSON           bool          `name:"json" help:"Print JSON."`
}

// Run creates the token. It writes only the secret to standard output, so that SLUICE_TOKEN=$(sluice token create …)
// works.
func (c *tokenCreateCmd) Run(p *process) error {
	scopes, err := access.ParseScopes(c.Scopes)
	if err != nil {
		return fmt.Errorf("--scopes: %w", err)
	}
	if c.Expires < 0 {
		return fmt.Errorf("--expires must not be negative")
	}
	t, secret, err := app.CreateToken(p.ctx, c.Storage,
		app.NewToken{Name: c.Name, Scopes: scopes, Lifetime: c.Expires, By: p.user}, p.now())
	if err != nil {
		return err
	}
	if c.JSON {
		v := viewOf(t, p.now())
		v.Secret = secret
		return printJSON(p, v)
	}
	fmt.Fprintln(p.out, secret)
	setting := "SLUICE_TOKEN"
	if slices.Equal(t.Scopes, []access.Scope{access.ScopeRegions}) {
		setting = "SLUICE_REGION_TOKEN"
	}
	fmt.Fprintf(p.errs, "Token %q (%s) was created. The line above is its secret, which is shown only once. Send it as "+
		"Authorization: Bearer SECRET, or set %s.\n",
		t.Name, access.FormatScopes(t.Scopes), setting)
	return nil
}

type tokenListCmd struct {
	config.Storage `embed:""`
	JSON           bool `name:"json" help:"Print JSON."`
}

// Run lists the tokens.
func (c *tokenListCmd) Run(p *process) error {
	list, err := app.Tokens(p.ctx, c.Storage)
	if err != nil {
		return err
	}
	views := make([]tokenView, len(list))
	for i, t := range list {
		views[i] = viewOf(t, p.now())
	}
	if c.JSON {
		return printJSON(p, views)
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tSCOPES\tSTATE\tCREATED\tBY\tEXPIRES\tLAST USED")
	for _, v := range views {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.Name, v.Scopes, v.State, day(&v.CreatedAt),
			v.CreatedBy, day(v.ExpiresAt), day(v.LastUsedAt))
	}
	return w.Flush()
}

func day(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return t.UTC().Format("2006-01-02 15:04")
}

type tokenRevokeCmd struct {
	config.Storage `embed:""`
	Token          string `arg:"" help:"Name or id of the token."`
}

// Run revokes the token.
func (c *tokenRevokeCmd) Run(p *process) error {
	t, err := app.RevokeToken(p.ctx, c.Storage, c.Token, p.user)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "Token %q (id %d) was revoked.\n", t.Name, t.ID)
	list, err := app.Tokens(p.ctx, c.Storage)
	if err != nil {
		return err
	}
	for _, other := range list {
		if v := viewOf(other, p.now()); v.Name == t.Name && v.State == "rotated" {
			fmt.Fprintf(p.out, "Its earlier secret, with the id %d, is still valid until %s UTC. To end it now: sluice token "+
				"revoke %d\n", v.ID, day(v.ExpiresAt), v.ID)
		}
	}
	return nil
}

type tokenRotateCmd struct {
	config.Storage `embed:""`
	Token          string        `arg:"" help:"Name or id of the token."`
	Overlap        time.Duration `name:"overlap" default:"24h" placeholder:"TIME" help:"How long the old token stays valid, 1m to 720h."`
	JSON           bool          `name:"json" help:"Print JSON."`
}

// Run rotates the token. It writes only the secret to standard output, as tokenCreateCmd does.
func (c *tokenRotateCmd) Run(p *process) error {
	old, t, secret, err := app.RotateToken(p.ctx, c.Storage, c.Token, c.Overlap, p.user)
	var invalid *field.ValidationError
	switch {
	case errors.As(err, &invalid):
		return fmt.Errorf("--overlap %s", invalid.Fields[0].Message)
	case err != nil:
		return err
	}
	if c.JSON {
		v := viewOf(t, p.now())
		v.Secret = secret
		return printJSON(p, v)
	}
	fmt.Fprintln(p.out, secret)
	fmt.Fprintf(p.errs, "Token %q has a new secret, which is shown only once: the line above. "+
		"The new token has the id %d. The old one, with the id %d, is valid until %s UTC.\n", t.Name, t.ID, old.ID,
		day(old.ExpiresAt))
	return nil
}

// tokenView is a token as the commands print it.
type tokenView struct {
	ID        int64      `json:"id"`
	Name      string     `json:"name"`
	Scopes    string     `json:"scopes"`
	State     string     `json:"state"`
	CreatedBy string     `json:"created_by"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	RevokedAt *time.Time `json:"revoked_at"`
	// ReplacedAt is when the token was rotated. LastUsedAt is exact to about a minute, and LastUsedFor the interface that
	// was called.
	ReplacedAt  *time.Time `json:"replaced_at"`
	LastUsedAt  *time.Time `json:"last_used_at"`
	LastUsedFor string     `json:"last_used_for,omitempty"`
	// Secret is set only for a new token.
	Secret string `json:"secret,omitempty"`
}

func viewOf(t access.Token, now time.Time) tokenView {
	v := tokenView{
		ID: t.ID, Name: t.Name, Scopes: access.FormatScopes(t.Scopes), State: "in force",
		CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, RevokedAt: t.RevokedAt,
		ReplacedAt: t.ReplacedAt,
	}
	if t.LastUse != nil {
		v.LastUsedAt, v.LastUsedFor = &t.LastUse.At, t.LastUse.Endpoint
	}
	switch {
	case t.RevokedAt != nil:
		v.State = "revoked"
	case t.InForce(now) != nil:
		v.State = "expired"
	case t.ReplacedAt != nil:
		v.State = "rotated"
	}
	return v
}
