package database

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"sluice/rules"
)

// parkPrefix starts the names of tables that hold what an older schema cannot, followed by the
// name of the original table. MigrateDown copies into them and Migrate restores from them; they
// exist only in between. Rules that would apply to more requests than before are disabled
// meanwhile.
const parkPrefix = "parked_"

// Versions of the schema that can hold what the previous one cannot.
const (
	stepPolicies  = 2
	stepOverrides = 3
	stepUsers     = 4
	stepSignOn    = 5
	stepReasons   = 6
	stepOwners    = 9
	stepProfiles  = 10
	stepShed      = 11
	stepStats     = 12 // has figures, which an older schema does without
	stepAlerts    = 15 // alerts themselves are not kept
)

// shedPools are the pools that shed. Their copy has a name of its own, which builds that do not know the member leave
// alone: such a build restores and drops the copies that it knows when it starts.
const shedPools = "pools_that_shed"

// parkedTables lists the tables that a migration down to a version below step copies, in this
// order. where selects the rows that the schema of that version loses.
var parkedTables = []struct {
	table string
	step  int64
	where func(version int64) string
}{
	{"pools", stepPolicies, everything},
	{shedPools, stepShed, func(int64) string { return "shed" }},
	{"profiles", stepProfiles, everything},
	{"webhooks", stepAlerts, everything},
	{"rule_overrides", stepOverrides, everything},
	{"users", stepSignOn, func(version int64) string {
		if version < stepUsers {
			return "1 = 1"
		}
		return "issuer <> ''" // the others stay where they are
	}},
	{"audit_log", stepUsers, func(version int64) string {
		if version < stepPolicies {
			return "subject_kind NOT IN ('rule', 'token')"
		}
		return "subject_kind = 'user'"
	}},
	{"rule_revisions", stepReasons, func(int64) string { return "reason <> ''" }},
	{"rules", stepOwners, func(version int64) string {
		if version < stepOverrides {
			return "1 = 1"
		}
		return "owner IS NOT NULL" // the rest of the rule stays where it is
	}},
}

func everything(int64) string { return "1 = 1" }

func parkActor(reason string) rules.Actor {
	return rules.Actor{Kind: "system", Name: "migrate", Reason: reason}
}

// park copies what the schema of a version cannot hold, and disables the rules that would apply to
// more requests without it. It runs on the newest schema.
func (d *DB) park(ctx context.Context, version int64) error {
	var off []string
	err := d.change(ctx, parkActor(fmt.Sprintf("migrate down to schema %d, which cannot hold all of the rule", version)),
		areaRules, migrateTimeout, func(c *change) error {
			for _, p := range parkedTables {
				if version >= p.step {
					continue
				}
				from := p.table
				if from == shedPools {
					from = "pools"
				}
				create := "CREATE TABLE " + parkPrefix + p.table + " AS SELECT * FROM " + from + " WHERE " + p.where(version)
				if err := c.tx.Exec(create).Error; err != nil {
					return err
				}
			}
			if version >= stepOverrides {
				return nil
			}
			var err error
			off, err = c.switchOff(version)
			return err
		})
	for _, line := range off {
		d.log.Warn("rule disabled, because the older schema cannot hold all of it; migrating up enables it again", "rule",
			line)
	}
	return err
}

// switchOff disables the active rules that the schema of a version would widen, and returns the
// name of each with the missing parts.
func (c *change) switchOff(version int64) (off []string, err error) {
	var granting []int64
	err = c.tx.Model(&overrideRow{}).Where("blocked = ? AND (expires_at IS NULL OR expires_at > ?)", false, c.at).
		Distinct().Pluck("rule_id", &granting).Error
	if err != nil {
		return nil, err
	}
	var rows []ruleRow
	if err := c.tx.Where("is_active = ?", true).Order("id").Find(&rows).Error; err != nil {
		return nil, err
	}
	for i := range rows {
		was := rows[i].rule()
		var missing []string
		if version < stepPolicies {
			missing = decidingPolicies(&was)
		}
		if slices.Contains(granting, was.ID) {
			missing = append(missing, "overrides")
		}
		if len(missing) == 0 {
			continue
		}
		next := was.Clone()
		next.IsActive = false
		if _, err := c.replaceRule(actionUpdate, &was, next); err != nil {
			return nil, err
		}
		// The version in which the rule must still be to be restored.
		if err := c.tx.Exec("UPDATE "+parkPrefix+"rules SET version = version + 1 WHERE id = ?", was.ID).Error; err != nil {
			return nil, err
		}
		off = append(off, was.Name+": "+strings.Join(missing, ", "))
	}
	return off, nil
}

// decidingPolicies returns the names of the policies without which the rule decides differently.
// Candidates, jitter and hot-key options are not among them.
func decidingPolicies(r *rules.Rule) []string {
	var names []string
	for _, p := range []struct {
		name string
		has  bool
	}{
		{"descriptor", r.Descriptor != nil}, {"host", r.NeedsHosts()}, {"condition", r.When != nil},
		{"life span", r.ActiveFrom != nil || r.ActiveUntil != nil}, {"tiers", len(r.Tiers) > 0},
		{"schedule", r.Schedule != nil}, {"calendar", r.Calendar != nil},
		{"elastic limit", r.Throttle == "elastic" || r.ElasticPercent != nil}, {"pool", r.Pool != nil},
		{"ban", r.Ban != nil}, {"charge_on", r.ChargeOn != "request"}, {"over_limit", r.OverLimit != "deny"},
	} {
		if p.has {
			names = append(names, p.name)
		}
	}
	return names
}

// restore restores parked data. A failure is logged and does not prevent the start: the rules stay
// disabled, and the next migration retries.
func (d *DB) restore(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, d.callTimeout)
	defer cancel()
	if tables, err := parkedNow(d.write.WithContext(limited), d.dialect); err != nil || len(tables) == 0 {
		return d.classify(ctx, err)
	}
	var kept []string
	restored := 0
	err := d.change(ctx, parkActor("migrate up: as before the migration down"), areaRules, migrateTimeout,
		func(c *change) error {
			tables, err := parkedNow(c.tx, d.dialect) // another node may have been faster
			if err != nil {
				return err
			}
			for _, p := range parkedTables {
				if !slices.Contains(tables, p.table) {
					continue
				}
				switch p.table {
				case "rules":
					restored, kept, err = c.restoreRules()
				case shedPools:
					err = c.tx.Exec("UPDATE pools SET shed = ? WHERE id IN (SELECT id FROM "+parkPrefix+shedPools+")", true).Error
				case "rule_revisions":
					err = c.tx.Exec(`UPDATE rule_revisions SET reason = (SELECT p.reason FROM parked_rule_revisions p
					WHERE p.rule_id = rule_revisions.rule_id AND p.version = rule_revisions.version)
					WHERE reason = '' AND EXISTS (SELECT 1 FROM parked_rule_revisions p
					WHERE p.rule_id = rule_revisions.rule_id AND p.version = rule_revisions.version)`).Error
				default:
					err = c.restoreRows(p.table, d.dialect)
				}
				if err == nil {
					err = c.tx.Exec("DROP TABLE " + parkPrefix + p.table).Error
				}
				if err != nil {
					return fmt.Errorf("restore %s: %w", p.table, err)
				}
			}
			return nil
		})
	if errors.Is(err, rules.ErrUnavailable) {
		return err
	}
	if err != nil {
		d.log.Error("restoring the data that an earlier migration down set aside failed; "+
			"rules that it disabled stay disabled", "error", err)
		return nil
	}
	d.log.Info("restored the data that an earlier migration down set aside", "rules", restored)
	for _, name := range kept {
		d.log.Warn("a rule was edited after the migration down and is not restored; its history holds the earlier version",
			"rule", name)
	}
	return nil
}

// parkedNow returns the tables of which there is a parked copy.
func parkedNow(tx *gorm.DB, dialect dialect) ([]string, error) {
	query := `SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()`
	if dialect == dialectSQLite {
		query = `SELECT name FROM sqlite_master WHERE type = 'table'`
	}
	var names, tables []string
	if err := tx.Raw(query).Scan(&names).Error; err != nil {
		return nil, err
	}
	for _, name := range names {
		if table, ok := strings.CutPrefix(name, parkPrefix); ok {
			tables = append(tables, table)
		}
	}
	return tables, nil
}

// restoreRules restores the content of rules, unless they were edited or deleted since, and
// returns the names of the edited ones.
func (c *change) restoreRules() (restored int, edited []string, err error) {
	parked, err := c.parkedRules()
	if err != nil {
		return 0, nil, err
	}
	for _, want := range parked {
		was, err := c.lockedRule(want.ID, 0)
		if errors.Is(err, rules.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, nil, err
		}
		if was.Version != want.Version {
			if len(decidingPolicies(&want)) > 0 {
				edited = append(edited, was.Name)
			}
			continue
		}
		if len(rules.Diff(&was, &want)) == 0 {
			continue
		}
		if _, err := c.replaceRule(actionUpdate, &was, want); err != nil {
			return 0, nil, err
		}
		restored++
	}
	return restored, edited, nil
}

// parkedRules reads the parked rules. Builds before step 8 wrote a column for each policy, and
// some before step 7 wrote no seq.
func (c *change) parkedRules() ([]rules.Rule, error) {
	var rows []ruleRow
	all := c.tx.Table(parkPrefix + "rules").Select("*").Order("id").Session(&gorm.Session{})
	if err := all.Find(&rows).Error; err != nil {
		return nil, err
	}
	if len(rows) == 0 || rows[0].Policies != "" {
		return rulesOf(rows), nil
	}
	var columns []map[string]any
	if err := all.Find(&columns).Error; err != nil {
		return nil, err
	}
	for i := range rows {
		policies, err := policiesOf(columns[i])
		if err != nil {
			return nil, err
		}
		rows[i].Policies = policies
	}
	return rulesOf(rows), nil
}

// policiesOf returns the policies from separate columns, as up to step 7.
func policiesOf(columns map[string]any) (document, error) {
	members := map[string]any{}
	for _, name := range rules.PolicyNames() {
		column, isJSON := name, false
		switch name {
		case "tiers", "schedule", "calendar", "candidate":
			isJSON = true
		case "defer":
			column, isJSON = "defer_bounds", true
		case "when":
			column = "when_expr"
		}
		value := columns[column]
		if text, ok := value.(string); ok && isJSON && json.Valid([]byte(text)) {
			value = json.RawMessage(text) // else it was damaged, and stays no policy
		}
		members[name] = value
	}
	text, err := json.Marshal(members)
	return document(text), err
}

// restoreRows inserts the rows of a parked table with their ids, except those whose ids were taken
// since, and makes nodes load them.
func (c *change) restoreRows(table string, dialect dialect) error {
	columns, err := commonColumns(c.tx, table, parkPrefix+table)
	if err != nil {
		return err
	}
	list, overriding := strings.Join(columns, ", "), ""
	if dialect == dialectPostgres {
		overriding = " OVERRIDING SYSTEM VALUE"
	}
	where := "1 = 1"
	if table == "rule_overrides" {
		where = "rule_id IN (SELECT id FROM rules)"
	}
	// Raise the version first: Postgres treats any other change as made by hand.
	var seq int64
	if area := map[string]string{"rule_overrides": areaOverrides, "users": areaUsers,
		"webhooks": areaWebhooks}[table]; area != "" {
		if seq, err = bump(c.tx, area); err != nil {
			return err
		}
	}
	err = c.tx.Exec("INSERT INTO " + table + " (" + list + ")" + overriding + " SELECT " + list + " FROM " + parkPrefix +
		table +
		" WHERE " + where + " ON CONFLICT DO NOTHING").Error
	if err == nil && dialect == dialectPostgres {
		err = c.tx.Exec("SELECT setval(pg_get_serial_sequence(?, 'id'), GREATEST((SELECT max(id) FROM "+table+"), 1))",
			table).Error
	}
	if err != nil || table != "rule_overrides" {
		return err
	}
	if err := c.tx.Exec("UPDATE rule_overrides SET seq = ?", seq).Error; err != nil {
		return err
	}
	// Nodes that are further behind load everything.
	return c.tx.Exec("UPDATE versions SET version = ? WHERE name = ?", seq, floorOverrides).Error
}

// commonColumns returns the columns that two tables have in common.
func commonColumns(tx *gorm.DB, a, b string) ([]string, error) {
	var columns [2][]string
	for i, table := range []string{a, b} {
		types, err := tx.Migrator().ColumnTypes(table)
		if err != nil {
			return nil, err
		}
		for _, c := range types {
			columns[i] = append(columns[i], c.Name())
		}
	}
	return slices.DeleteFunc(columns[0], func(name string) bool { return !slices.Contains(columns[1], name) }), nil
}

// dropParked drops the parked tables.
func (d *DB) dropParked(ctx context.Context) error {
	tables, err := parkedNow(d.write.WithContext(ctx), d.dialect)
	for _, table := range tables {
		if err == nil {
			err = d.write.WithContext(ctx).Exec("DROP TABLE " + parkPrefix + table).Error
		}
	}
	return d.classify(ctx, err)
}
