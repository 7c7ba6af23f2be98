package alerts

// Kind is the kind of an alert. It is the type of the message.
type Kind string

// The kinds of alerts.
const (
	// KindRuleDenials: a rule denies more than a share of its requests, or more than a number per second.
	KindRuleDenials Kind = "rule_denials"
	// KindKeyUsage: a key has used up a percentage that its rule lists in notify_percent.
	KindKeyUsage Kind = "key_usage"
	// KindKeyHot: a key gets so many requests that nodes treat it as hot.
	KindKeyHot Kind = "key_hot"
	// KindFailModeEngaged and KindFailModeEnded: fail modes decide requests, because the counter store cannot.
	KindFailModeEngaged Kind = "failmode_engaged"
	KindFailModeEnded   Kind = "failmode_ended"
	// KindRuleIdle: a rule matched no request for a week.
	KindRuleIdle Kind = "rule_idle"
	// KindSetRefused: the stored rules do not compile, so that nodes keep the previous ones.
	KindSetRefused Kind = "set_refused"
	// KindSetOld: a node decides by rules that the rule database has not confirmed for a long time.
	KindSetOld Kind = "set_old"
	// KindRegionCutOff: two regions are cut off from each other.
	KindRegionCutOff Kind = "region_cut_off"
	// KindRegionSetOld: a region has lacked an edit of the rules for a long time.
	KindRegionSetOld Kind = "region_set_old"
	// KindLogDropping: the decision log loses events.
	KindLogDropping Kind = "decision_log_dropping"
	// KindNodeStarved: a node lacks CPU, so that its checks are late.
	KindNodeStarved Kind = "node_starved"
	// KindTokenRefused: an API token is used although it is expired or revoked.
	KindTokenRefused Kind = "token_refused"
	// KindTokenExpiring: an API token expires within 14 days.
	KindTokenExpiring Kind = "token_expiring"
)

// Types of messages that do not describe a single alert.
const (
	// TypeSummary contains several alerts of one kind.
	TypeSummary = "summary"
	// TypeTest is the message of a test of a webhook.
	TypeTest = "test"
)

// Kinds returns all kinds, in the order in which people read them.
func Kinds() []string {
	return []string{string(KindRuleDenials), string(KindKeyUsage), string(KindKeyHot), string(KindFailModeEngaged),
		string(KindFailModeEnded), string(KindRuleIdle), string(KindSetRefused), string(KindSetOld), string(KindRegionCutOff),
		string(KindRegionSetOld), string(KindLogDropping), string(KindNodeStarved), string(KindTokenRefused),
		string(KindTokenExpiring)}
}

// States of an alert.
const (
	// On: the condition has begun.
	On = "on"
	// Off: the condition has ended.
	Off = "off"
)
