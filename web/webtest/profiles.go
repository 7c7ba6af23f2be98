package webtest

import (
	"fmt"
	"strings"
	"time"

	"sluice/rules"
	"sluice/rules/profile"
)

func sampleProfiles() *Objects[profile.Profile] {
	shop, intern := profile.New(), profile.New()
	shop.Name, shop.Description = "shop", "nginx in front of the shop"
	shop.Facts.User = []profile.Source{{Header: "X-User"}, {Cookie: "uid"}, {Value: "anonymous"}}
	shop.Facts.APIKey = []profile.Source{{Header: "X-Api-Key"}}
	shop.Facts.Attributes = map[string][]profile.Source{"tenant": {{Header: "X-Tenant"}, {Claim: "tenant"}}}
	shop.Claims = profile.ClaimsTrusted
	shop.Routes = []string{"/v1/charges", "/users/{id}", "/files/*"}
	shop.ClientIP.Trusted = []string{"10.0.0.0/8"}
	shop.Domain = "edge"
	shop.Entries = map[string]string{"remote_address": "ip", "user": "user", "path": "path", "tenant": "attr:tenant"}
	shop.Missing = map[string]profile.MissingFact{"api_key": {Action: profile.MissingDeny}}
	intern.Name, intern.Proof.Token = "internal", false
	f := &Objects[profile.Profile]{kind: rules.ProfileKind}
	for i, p := range []profile.Profile{intern, shop} {
		p.Version, p.CreatedAt, p.UpdatedAt = 1, Now.Add(-300*time.Hour), Now.Add(-time.Duration(30+i)*time.Hour)
		f.List = append(f.List, p)
	}
	return f
}

// longName is as long as the name of a profile may be.
var longName = strings.Repeat("long-name.", 7)[:63]

// addLongProfile adds a profile with texts and lists that are long.
func addLongProfile(w *World) {
	p := profile.New()
	p.Name, p.Description = longName, strings.Repeat("A long description. ", 20)
	header := "X-" + strings.Repeat("Long", 30)
	p.Facts.User = []profile.Source{{Header: header}, {Value: strings.Repeat("v", 256)}}
	for i := range 12 {
		p.Facts.Attributes[fmt.Sprintf("%s%d", strings.Repeat("a", 60), i)] = []profile.Source{{Header: header}}
	}
	for i := range 100 {
		p.Routes = append(p.Routes, fmt.Sprintf("/v1/%s/{id}/%d", strings.Repeat("long", 20), i))
	}
	p.Domain = strings.Repeat("long-domain.", 21)
	for i := range 12 {
		p.Entries[fmt.Sprintf("%s%d", strings.Repeat("k", 250), i)] = "attr:" + strings.Repeat("a", 64)
	}
	p.Proof.Networks = []string{"2001:db8:1111:2222:3333:4444:5555:6666", "10.0.0.0/8"}
	p.Proof.Certificates = []string{strings.Repeat("gateway.", 25) + "example"}
	p.Version, p.CreatedAt, p.UpdatedAt = 1, Now, Now
	w.Profiles.List = append(w.Profiles.List, p)
}
