package match

import (
	"time"

	"sluice/rules/when"
)

// holds reports whether the rule's condition is true for the request with the given weight under the rule. A condition
// that cannot be evaluated counts as true and is reported; the error says why.
func (k *keyer) holds(c *Compiled, weight int64) (bool, error) {
	env := when.Env{
		Method: k.method, Route: k.route, Host: k.d.Host, User: k.d.User, APIKey: k.d.APIKey, Tier: k.d.Tier,
		Attributes: k.d.Attributes, Fields: k.d.Fields, Weight: weight,
	}
	if c.when.UsesIP() && k.d.IP.IsValid() {
		env.IP = k.set.opt.NormalAddr(k.d.IP).String()
	}
	opt := &k.set.opt
	measured := opt.ConditionTook != nil && opt.Now != nil
	var began time.Time
	if measured {
		began = opt.Now()
	}
	holds, err := c.when.Holds(&env)
	if measured {
		opt.ConditionTook(opt.Now().Sub(began))
	}
	if err != nil && opt.ConditionFailed != nil {
		opt.ConditionFailed(&c.Rule)
	}
	return holds, err
}

// ConditionNames returns the names that the rule's condition uses, in order: facts, functions, and variables of its
// own; nil if it has none.
func (c *Compiled) ConditionNames() []string {
	if c.when == nil {
		return nil
	}
	return c.when.Names()
}
