package kit

import (
	"strconv"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/view"
)

// UndoFor is how long the message about a change offers to undo it.
const UndoFor = 30 * time.Second

// Kinds of changes that can be undone.
const (
	UndoRule     = "rule"
	UndoOverride = "override"
	UndoBulk     = "bulk"
)

// Undo names a change that its author can undo shortly afterwards.
type Undo struct {
	Kind string
	// Rule is the ID of the rule; of a bulk edit it is 0.
	Rule int64
	// ID identifies an override or a bulk edit.
	ID int64
	// Version is the version that the change left, 0 for a deletion or a bulk edit.
	Version int64
}

// UndoOfRule names the change that left a version of a rule.
func UndoOfRule(r *rules.Rule) Undo { return Undo{Kind: UndoRule, Rule: r.ID, Version: r.Version} }

// UndoOfOverride names the change that left a version of an override.
func UndoOfOverride(o *rules.Override) Undo {
	return Undo{Kind: UndoOverride, Rule: o.RuleID, ID: o.ID, Version: o.Version}
}

// UndoOfDeleted names the deletion of an override.
func UndoOfDeleted(o *rules.Override) Undo { return Undo{Kind: UndoOverride, Rule: o.RuleID, ID: o.ID} }

// String is the form in which ReadUndo reads it: override.7.12.4.
func (u Undo) String() string {
	return u.Kind + "." + view.Digits(u.Rule) + "." + view.Digits(u.ID) + "." + view.Digits(u.Version)
}

// ReadUndo reads what String writes.
func ReadUndo(text string) (u Undo, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 4 || OneOf(parts[0], UndoRule, UndoOverride, UndoBulk) == "" {
		return Undo{}, false
	}
	u.Kind = parts[0]
	for i, to := range []*int64{&u.Rule, &u.ID, &u.Version} {
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil || n < 0 {
			return Undo{}, false
		}
		*to = n
	}
	return u, true
}

// OfferUndo lets the message of the next Flash offer to undo a change.
func (v *Visit) OfferUndo(u Undo) { v.undo = view.Digits(v.kit.Now().UnixMilli()) + " " + u.String() }

// undoOffer is the offer of a stored message, nil if its time is over or the person cannot change anything.
func (v *Visit) undoOffer(stored string) *view.Undo {
	at, what, _ := strings.Cut(stored, " ")
	made, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !v.CanChange(access.RoleEditor) {
		return nil
	}
	left := UndoFor - v.kit.Now().Sub(time.UnixMilli(made))
	if left <= 0 {
		return nil
	}
	return &view.Undo{What: what, Left: left}
}
