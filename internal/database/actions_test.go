package database

import (
	"slices"
	"testing"

	"sluice/internal/audit"
	"sluice/rules"
)

func TestActions_AreAllKnownToReadersOfTheAuditLog(t *testing.T) {
	for _, action := range []string{
		actionCreate, actionUpdate, actionDelete, actionRollback, actionPromote, actionImport, actionRevoke,
		actionConnect, actionDisconnect,
		actionDisable, actionEnable, actionSignOut, actionReset,
		actionOverrideCreate, actionOverrideUpdate, actionOverrideDelete, actionOverrideImport,
	} {
		if !slices.Contains(audit.Actions(), action) {
			t.Errorf("%s is not among audit.Actions", action)
		}
	}
	for _, subject := range []string{subjectRule, rules.PoolKind.Noun, subjectToken, subjectUser} {
		if !slices.Contains(audit.Subjects(), subject) {
			t.Errorf("%s is not among audit.Subjects", subject)
		}
	}
}
