package profiles

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/deploy"
	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/web/kit"
	"sluice/web/view"
)

// program is the word for a program that asks by itself. Such a program describes the request and needs no profile.
const program = "program"

// Facts that the client's header can have.
const (
	factAPIKey = "api_key"
	factUser   = "user"
)

// headerOf is the header with a fact unless another one is typed.
var headerOf = map[string]string{factAPIKey: deploy.ExamplePlaces().Header, factUser: "X-User"}

var factChoices = []view.Choice{{factAPIKey, "API key"}, {factUser, "User"}}

var lifetimes = []view.Choice{{"0", "Never"}, {"30", "In 30 days"}, {"90", "In 90 days"}, {"365", "In a year"}}

// placeholder stands for the secret of a token where that is not known.
const placeholder = "slk_..."

// Connect is the page that connects a gateway.
type Connect struct {
	// Gateway is nil for a program.
	Gateway *deploy.Gateway
	Form    view.Form
	Texts   Texts
	// First means that the token is the first one, so that everybody needs one from then on.
	First bool
	// TLS means that this node listens with TLS, which the texts do not.
	TLS bool
	// NoRules means that no rule is in force, so that every request passes.
	NoRules bool
	Problem string
}

// Word is the name of the gateway in URLs and forms.
func (m *Connect) Word() string {
	if m.Gateway == nil {
		return program
	}
	return m.Gateway.Name
}

// Texts are what to copy for a gateway.
type Texts struct {
	deploy.Example
	// Folder is the folder of the gateway for the files, "" for any.
	Folder string
	// Token is the line that sets the token, "" if the gateway sends none.
	Token string
}

// choice is what the form of the page says.
type choice struct {
	gateway *deploy.Gateway // nil for a program
	places  deploy.Places
	fact    string
	// from is the address of the gateway's connections, if the profile needs it.
	from string
	days int
}

// chooseGateway shows the text of a gateway and stores nothing.
func (p *Pages) chooseGateway(v *kit.Visit) error {
	form := p.filled(v, v.QueryParams())
	c, problems := readChoice(form)
	return p.connectPage(v, http.StatusOK, c, form, problems, "")
}

func (p *Pages) connectPage(v *kit.Visit, status int, c choice, form url.Values, problems []field.Problem,
	problem string) error {
	set := p.Sets.Load()
	m := Connect{Gateway: c.gateway, Form: view.NewForm(form, problems), Texts: p.texts(c, placeholder), TLS: p.TLS,
		NoRules: set != nil && set.Len() == 0, Problem: problem}
	if c.gateway == nil || !c.gateway.NoToken {
		tokens, err := p.Tokens.ListTokens(v.Ctx)
		m.First = err == nil && len(tokens) == 0
	}
	return v.Page(status, choosePage(v.Frame("Connect a gateway", kit.PathProfiles), &m))
}

// filled returns the form with values that a newcomer need not know: a free name and the address of this node.
func (p *Pages) filled(v *kit.Visit, typed url.Values) url.Values {
	places := deploy.ExamplePlaces()
	form := url.Values{"gateway": {deploy.Gateways[0].Name}, "fact": {p.likelyFact()}, "sluice": {p.address(v)},
		"clients": {places.Clients}, "app": {places.App}, "from": {"127.0.0.1"}, "days": {"0"}}
	for name := range form {
		if text := strings.TrimSpace(typed.Get(name)); text != "" {
			form.Set(name, text)
		}
	}
	if word := form.Get("gateway"); word != program && deploy.GatewayNamed(word) == nil {
		form.Set("gateway", deploy.Gateways[0].Name)
	}
	form.Set("header", headerOf[form.Get("fact")])
	if text := strings.TrimSpace(typed.Get("header")); text != "" {
		form.Set("header", text)
	}
	form.Set("name", strings.TrimSpace(typed.Get("name")))
	if !typed.Has("name") {
		form.Set("name", p.freeName(v, form.Get("gateway")))
	}
	return form
}

// likelyFact is the fact that identifies clients for the rules in force.
func (p *Pages) likelyFact() string {
	set, user := p.Sets.Load(), false
	if set == nil {
		return factAPIKey
	}
	for i := range set.Len() {
		parts := strings.Split(set.At(i).Rule.Scope, "+")
		if slices.Contains(parts, "apikey") {
			return factAPIKey
		}
		user = user || slices.Contains(parts, "user")
	}
	if user {
		return factUser
	}
	return factAPIKey
}

// address is where a gateway reaches this node: the address at which the node listens. If that is every address, it is
// the host that the browser calls, with the node's port.
func (p *Pages) address(v *kit.Visit) string {
	asked := v.Request().Host
	host, port, err := net.SplitHostPort(p.Node().Address)
	if err != nil {
		return asked
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		if host, _, err = net.SplitHostPort(asked); err != nil {
			host = strings.Trim(asked, "[]") // without a port
		}
	}
	return net.JoinHostPort(host, port)
}

// freeName returns the name of the gateway. It adds a number if a profile or an active token has that name.
func (p *Pages) freeName(v *kit.Visit, word string) string {
	taken := map[string]bool{}
	if set := p.Sets.Load(); set != nil {
		for _, stored := range set.Profiles() {
			taken[stored.Name] = true
		}
	}
	tokens, _ := p.Tokens.ListTokens(v.Ctx) // unknown ones are refused later
	for i := range tokens {
		t := &tokens[i]
		taken[t.Name] = taken[t.Name] || t.RevokedAt == nil && t.ReplacedAt == nil
	}
	name := word
	for n := 2; taken[name]; n++ {
		name = word + "-" + view.Digits(n)
	}
	return name
}

var headerPattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// readChoice reads the form. With problems, the choice has the places of the examples where the form has none.
func readChoice(form url.Values) (c choice, problems []field.Problem) {
	wrong := func(name, message string) {
		problems = append(problems, field.Problem{Field: name, Message: message})
	}
	c = choice{gateway: deploy.GatewayNamed(form.Get("gateway")), places: deploy.ExamplePlaces(), fact: form.Get("fact"),
		from: form.Get("from")}
	if c.places.Profile = form.Get("name"); !field.ValidName(c.places.Profile) {
		c.places.Profile = deploy.ExamplePlaces().Profile
		wrong("name", "must be "+field.NameHelp)
	}
	days, err := strconv.Atoi(form.Get("days"))
	if c.days = days; err != nil || !slices.ContainsFunc(lifetimes, func(l view.Choice) bool {
		return l.Value() == form.Get("days")
	}) {
		wrong("days", "must be one of the options")
	}
	for _, one := range []struct {
		name string
		at   *string
	}{{"sluice", &c.places.Sluice}, {"clients", &c.places.Clients}, {"app", &c.places.App}} {
		if c.gateway == nil && one.name != "sluice" {
			continue
		}
		if isAddress(form.Get(one.name)) {
			*one.at = form.Get(one.name)
		} else {
			wrong(one.name, "must be a host and a port, such as 127.0.0.1:8080")
		}
	}
	if c.gateway == nil {
		return c, problems
	}
	if _, known := headerOf[c.fact]; !known {
		wrong("fact", "must be one of the options")
		c.fact = factAPIKey
	}
	if (c.gateway.NoToken || c.gateway.Appends) && !isNetwork(c.from) {
		wrong("from", "must be an address or a network, such as 10.0.0.5 or 10.0.0.0/24")
	}
	if headerPattern.MatchString(form.Get("header")) {
		c.places.Header = form.Get("header")
	} else {
		wrong("header", "must be the name of a header: up to 64 letters, digits and dashes, beginning with a letter")
	}
	return c, problems
}

// hostPattern are the hosts that an address may have besides IP addresses.
var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// isAddress reports whether a text is a host and a port.
func isAddress(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	ip, notIP := netip.ParseAddr(host)
	return err == nil && n > 0 && port[0] != '0' && (hostPattern.MatchString(host) || notIP == nil && ip.Zone() == "")
}

// isNetwork reports whether a text is an address or a network.
func isNetwork(text string) bool {
	_, notAddress := netip.ParseAddr(text)
	_, notNetwork := netip.ParsePrefix(text)
	return notAddress == nil || notNetwork == nil
}

// texts are the texts for a choice.
func (p *Pages) texts(c choice, secret string) Texts {
	if c.gateway == nil {
		scheme := "http"
		if p.TLS {
			scheme = "https"
		}
		return Texts{Token: view.TokenLine(secret), Example: deploy.Example{
			Try: view.CheckSample(scheme + "://" + c.places.Sluice)}}
	}
	t := Texts{Example: c.gateway.Fill(c.places), Folder: c.gateway.Folder}
	if !c.gateway.NoToken {
		t.Token = view.TokenLine(secret)
	}
	return t
}

// profile is what the gateway of a choice needs.
func (c *choice) profile() profile.Profile {
	p := profile.New()
	p.Name, p.Description = c.places.Profile, c.gateway.Title
	source := []profile.Source{{Header: c.places.Header}}
	if c.fact == factUser {
		p.Facts.User = source
	} else {
		p.Facts.APIKey = source
	}
	proves(&p, c.gateway, c.from)
	p.Normalize()
	return p
}

// proves sets how a gateway that connects from an address proves itself, and whether that address is in the forwarding
// header.
func proves(p *profile.Profile, g *deploy.Gateway, from string) {
	p.Proof.Token, p.Proof.Networks, p.ClientIP.Trusted = !g.NoToken, []string{}, []string{}
	if g.NoToken {
		p.Proof.Networks = []string{from}
	}
	if g.Appends {
		p.ClientIP.Trusted = []string{from}
	}
}

// inputs are what the page of the profile needs to show the texts again.
func (c *choice) inputs() map[string]string {
	return map[string]string{"gateway": c.gateway.Name, "header": c.places.Header, "sluice": c.places.Sluice,
		"clients": c.places.Clients, "app": c.places.App}
}

// inputOf is the input of the page for a field of the profile.
func inputOf(name string) string {
	switch {
	case strings.HasPrefix(name, "facts."):
		return "header"
	case strings.HasPrefix(name, "proof.networks"), strings.HasPrefix(name, "client_ip.trusted"):
		return "from"
	}
	return name
}

// connect stores the profile and the token, and shows the texts with the secret, once. The answer is the page itself,
// because a redirect would have to store the secret.
func (p *Pages) connect(v *kit.Visit, typed url.Values) error {
	if !typed.Has("name") {
		typed.Set("name", "")
	}
	form := p.filled(v, typed)
	c, problems := readChoice(form)
	if len(problems) > 0 {
		return p.connectPage(v, http.StatusUnprocessableEntity, c, form, problems, "")
	}
	secret, hash := access.NewSecret()
	t := access.Token{Name: c.places.Profile, Hash: hash, Scopes: []access.Scope{access.ScopeCheck}}
	if c.days > 0 {
		t.ExpiresAt = new(p.Now().Add(time.Duration(c.days) * 24 * time.Hour))
	}
	err := p.store(v, &c, &t)
	switch {
	case errors.Is(err, rules.ErrNameTaken):
		problems = []field.Problem{{Field: "name", Message: "is already used by a profile or an active token"}}
		return p.connectPage(v, http.StatusConflict, c, form, problems, "")
	case errors.As(err, new(*rules.TakenError)):
		return p.connectPage(v, http.StatusConflict, c, form, kit.FieldsOf(err), "")
	case errors.Is(err, rules.ErrUnavailable):
		return p.connectPage(v, http.StatusServiceUnavailable, c, form, nil, kit.NotSaved(err))
	case kit.FieldsOf(err) != nil:
		for _, f := range kit.FieldsOf(err) {
			problems = append(problems, field.Problem{Field: inputOf(f.Field), Message: f.Message})
		}
		return p.connectPage(v, http.StatusUnprocessableEntity, c, form, problems, "")
	case err != nil:
		return err
	}
	p.waitForBoth(v)
	if v.NotYetInForce {
		v.Flash("Gateway connected.")
	}
	p.Logger.Info("connected a gateway", "gateway", form.Get("gateway"), "name", c.places.Profile, "by", v.User.Name)
	m := Connect{Gateway: c.gateway, Form: view.NewForm(form, nil), Texts: p.texts(c, secret), TLS: p.TLS}
	return v.Page(http.StatusOK, connectedPage(v.Frame("Connected "+c.places.Profile, kit.PathProfiles), &m))
}

// store stores the profile and the token of a gateway, and only a token for a program.
func (p *Pages) store(v *kit.Visit, c *choice, t *access.Token) error {
	if c.gateway == nil {
		_, err := p.Tokens.CreateToken(v.Ctx, v.Actor(), *t)
		return err
	}
	if c.gateway.NoToken {
		t = nil
	}
	return p.Gateways.Connect(v.Ctx, v.Actor(), c.profile(), t, c.inputs())
}

// Connection is what the page of a profile shows of a gateway that was connected on the page of gateways.
type Connection struct {
	profile.Connection
	Name    string
	Gateway *deploy.Gateway
	Texts   Texts
	// Offered means that the viewer of the page may remove both.
	Offered bool
}

// connection returns nil for a profile that was made otherwise.
func (p *Pages) connection(v *kit.Visit, name string) (*Connection, error) {
	stored, err := p.Gateways.Connection(v.Ctx, name)
	if errors.Is(err, rules.ErrNotFound) {
		return nil, nil //nolint:nilnil // most profiles have none
	}
	if err != nil {
		return nil, err
	}
	form := url.Values{"name": {name}, "days": {"0"}, "fact": {factAPIKey}}
	for input, text := range stored.Inputs {
		form.Set(input, text)
	}
	c, _ := readChoice(form) // damaged inputs become those of the examples
	if c.gateway == nil {
		return nil, nil //nolint:nilnil // a gateway that this version does not know
	}
	return &Connection{Connection: stored, Name: name, Gateway: c.gateway, Texts: p.texts(c, placeholder),
		Offered: v.CanChange(access.RoleAdmin)}, nil
}

// Feed returns the live part of the page of a profile: whether its gateway has asked.
func (p *Pages) Feed(v *kit.Visit) kit.Feed {
	name, last := v.QueryParam("profile"), (*Connection)(nil)
	return func() templ.Component {
		if last == nil || last.AskedAt == nil {
			c, err := p.connection(v, name)
			if err != nil || c == nil {
				return templ.NopComponent
			}
			last = c
		}
		return askedPart(last)
	}
}

// disconnect deletes the profile of a gateway that has not asked yet, and revokes its token.
func (p *Pages) disconnect(v *kit.Visit) error {
	name := v.Param("name")
	was, err := p.Gateways.Connection(v.Ctx, name)
	if err != nil {
		return err
	}
	err = p.Gateways.Disconnect(v.Ctx, v.Actor(), name)
	if errors.Is(err, profile.ErrAsked) {
		return &kit.Problem{Status: http.StatusConflict, Title: "The gateway is in use",
			Detail: "A request has come with the profile " + name + ", so nothing was removed. To end its use, delete the " +
				"profile on the page Profiles, and revoke the token on the page API tokens."}
	}
	if err != nil {
		return err
	}
	p.waitForBoth(v)
	p.Logger.Info("removed a gateway that never asked", "name", name, "by", v.User.Name)
	if was.TokenID == 0 {
		v.Flash("Profile %s removed.", name)
	} else {
		v.Flash("Profile and token of %s removed.", name)
	}
	return v.SeeOther(kit.PathConnect)
}

// waitForBoth waits until a change of the rules and of the tokens is in force on this node.
func (p *Pages) waitForBoth(v *kit.Visit) {
	v.WaitInForce(p.Changed)
	late := v.NotYetInForce
	v.WaitInForce(p.TokensChanged)
	v.NotYetInForce = v.NotYetInForce || late
}

// prefill fills in the proof and the client's address for the gateway that the query names. Nothing is saved before the
// form is saved.
func prefill(v *kit.Visit, p *profile.Profile) {
	g := deploy.GatewayNamed(v.QueryParam("for"))
	if g == nil {
		return
	}
	if p.Name == "" {
		p.Description = g.Title
	}
	if len(p.Facts.User)+len(p.Facts.APIKey) == 0 {
		p.Facts.APIKey = []profile.Source{{Header: headerOf[factAPIKey]}}
	}
	proves(p, g, "127.0.0.1")
}
