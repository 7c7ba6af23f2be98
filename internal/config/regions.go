package config

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Regions says which regions have limits together, and how they reach each other. There are none without
// SLUICE_REGIONS.
type Regions struct {
	Region      string `name:"region" env:"SLUICE_REGION" placeholder:"NAME" help:"Name of the region of this node, one of those of --regions. Its Redis remembers it and refuses nodes of another region."`
	Regions     string `name:"regions" env:"SLUICE_REGIONS" placeholder:"LIST" help:"All regions and the addresses of their nodes, the same on every node, as in eu=https://a:8080|https://b:8080,us=https://c:8080. Rules whose span is not region then count over all of them. Requires --redis-url and --database-url. 2 to 50 regions. Empty: no regions."`
	RegionToken Secret `name:"region-token" env:"SLUICE_REGION_TOKEN" changed:"A changed token is used" placeholder:"SECRET" help:"API token with the scope regions that is sent to the other regions, and from a read replica of the rules database to its primary. Set it in the environment to keep it out of process listings."`

	RegionCertFile string `name:"region-cert-file" env:"SLUICE_REGION_CERT_FILE" placeholder:"FILE" help:"Client certificate for the other regions in PEM form, followed by its intermediates. With it --region-token is not needed. It is read again when it changes. Requires https addresses in --regions."`
	RegionKeyFile  string `name:"region-key-file" env:"SLUICE_REGION_KEY_FILE" placeholder:"FILE" help:"Key of --region-cert-file in PEM form."`
	RegionCAFile   string `name:"region-ca-file" env:"SLUICE_REGION_CA_FILE" placeholder:"FILE" help:"Authorities of the certificates of the other regions in PEM form. It is read again when it changes. Empty: those of the system."`
}

const (
	// MaxRegions is the largest number of regions.
	MaxRegions = 50
	// maxRegionAddresses is the largest number of addresses of a region.
	maxRegionAddresses = 64
)

var regionName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)

// RegionAddresses is one region and the URLs of its nodes.
type RegionAddresses struct {
	Name      string
	Addresses []string
}

// HasRegions reports whether limits can span regions.
func (r *Regions) HasRegions() bool { return r.Regions != "" }

// RegionList parses Regions; nil if it is empty. The error repeats no address.
func (r *Regions) RegionList() ([]RegionAddresses, error) {
	if r.Regions == "" {
		return nil, nil
	}
	var out []RegionAddresses
	for i, entry := range strings.Split(r.Regions, ",") {
		name, addresses, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || !regionName.MatchString(name) {
			return nil, fmt.Errorf("must be regions such as eu=https://a:8080|https://b:8080, separated by commas; entry %d "+
				"has no name of 1 to 32 of a-z, 0-9 and '-' before a =", i+1)
		}
		if slices.ContainsFunc(out, func(o RegionAddresses) bool { return o.Name == name }) {
			return nil, fmt.Errorf("must not name the region %s twice", name)
		}
		region := RegionAddresses{Name: name}
		for address := range strings.SplitSeq(addresses, "|") {
			u, err := url.Parse(strings.TrimSpace(address))
			if err != nil || !isOrigin(u.String()) {
				return nil, fmt.Errorf("must have addresses of a scheme and a host, as in https://a:8080; one of %s has not", name)
			}
			origin := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
			if of := slices.IndexFunc(out, func(o RegionAddresses) bool {
				return slices.Contains(o.Addresses, origin)
			}); of >= 0 {
				return nil, fmt.Errorf("must not have one address for two regions, as for %s and %s", out[of].Name, name)
			}
			region.Addresses = append(region.Addresses, origin)
		}
		if len(region.Addresses) > maxRegionAddresses {
			return nil, fmt.Errorf("must have at most %d addresses for a region; %s has more", maxRegionAddresses, name)
		}
		out = append(out, region)
	}
	if len(out) < 2 || len(out) > MaxRegions {
		return nil, fmt.Errorf("must have 2 to %d regions, not %d", MaxRegions, len(out))
	}
	return out, nil
}

// check validates them. replica: the node may be at a read replica, which sends its figures to the primary with the
// token.
func (r *Regions) check(c *checker, redis, postgres, replica bool) {
	const region, regions = "SLUICE_REGION", "SLUICE_REGIONS"
	c.secrets(r)
	if !r.HasRegions() {
		for _, is := range []struct{ flag, env, value string }{
			{"region", region, r.Region},
			{"region-token", "SLUICE_REGION_TOKEN", r.RegionToken.Value},
			{"region-token-file", "SLUICE_REGION_TOKEN_FILE", r.RegionToken.File},
			{"region-cert-file", "SLUICE_REGION_CERT_FILE", r.RegionCertFile},
			{"region-key-file", "SLUICE_REGION_KEY_FILE", r.RegionKeyFile},
			{"region-ca-file", "SLUICE_REGION_CA_FILE", r.RegionCAFile},
		} {
			if is.value != "" && (!replica || !strings.HasPrefix(is.flag, "region-token")) {
				c.fail(is.flag, is.env, "requires --regions (%s)", regions)
			}
		}
		return
	}
	list, err := r.RegionList()
	if err != nil {
		c.fail("regions", regions, "%s", err)
	}
	names := func(o RegionAddresses) bool { return o.Name == r.Region }
	switch {
	case r.Region == "":
		c.fail("region", region, "is required with --regions (%s): it says which of them is that of this node", regions)
	case err == nil && !slices.ContainsFunc(list, names):
		c.fail("region", region, "must be one of the regions of --regions (%s), not %q", regions, r.Region)
	}
	if !r.RegionToken.IsSet() && r.RegionCertFile == "" {
		c.fail("region-token", "SLUICE_REGION_TOKEN", "or --region-cert-file (SLUICE_REGION_CERT_FILE) is required with "+
			"--regions (%s): create one with 'sluice token create regions --scopes regions'", regions)
	}
	if strings.ContainsFunc(r.RegionToken.Value, unicode.IsControl) { // no header can have it
		c.fail("region-token", "SLUICE_REGION_TOKEN", "must not have a line break or another control character")
	}
	r.checkCertificates(c, list)
	if !redis {
		c.errs = append(c.errs, errors.New("--regions (SLUICE_REGIONS) requires --redis-url (REDIS_URL): an embedded server "+
			"counts in its own memory, and what it has not yet told the other regions would be lost when it stops"))
	}
	if !postgres {
		c.errs = append(c.errs, errors.New("--regions (SLUICE_REGIONS) requires --database-url (DATABASE_URL) of one "+
			"Postgres for all regions: they know each rule by its id, and with a database of its own a region would count "+
			"under another rule what others spend"))
	}
}

// checkCertificates checks the files of connections to other regions.
func (r *Regions) checkCertificates(c *checker, list []RegionAddresses) {
	const setting = "SLUICE_REGION_CERT_FILE"
	if (r.RegionCertFile == "") != (r.RegionKeyFile == "") {
		c.fail("region-cert-file", setting, "is required with --region-key-file (SLUICE_REGION_KEY_FILE), and the other "+
			"way round")
	}
	if r.RegionCertFile == "" {
		return
	}
	for _, other := range list {
		plain := slices.ContainsFunc(other.Addresses, func(a string) bool { return strings.HasPrefix(a, "http://") })
		if plain && other.Name != r.Region {
			c.fail("region-cert-file", setting, "requires https addresses in --regions (SLUICE_REGIONS); one of %s is not",
				other.Name)
		}
	}
}
