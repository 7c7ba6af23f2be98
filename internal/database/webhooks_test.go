package database

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/audit"
	"sluice/rules"
	"sluice/rules/field"
)

func sampleWebhook(name string) alerts.Webhook {
	w := alerts.NewWebhook()
	w.Name, w.URL, w.Secret = name, "https://hooks.example.com/services/T0/B0/token", alerts.NewSecret()
	w.Kinds, w.Rules = []string{"key_usage"}, []string{"charges"}
	return w
}

// A webhook's life is audited, changes no rules, and shows neither the secret nor the path of the URL.
func TestWebhooks_LiveAndKeepTheirSecret(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx, store := t.Context(), d.Webhooks()
		want := sampleWebhook("pager")
		w, err := store.Create(ctx, ada, want)
		if err != nil || w.Version != 1 || w.Secret != "" || w.ID == 0 || w.URL != want.URL || !w.IsActive ||
			w.DeniedPercent != 50 || w.Rules[0] != "charges" {
			t.Fatalf("got %+v, %v", w, err)
		}
		if v := mustVersions(t, d); v.Rules != 0 {
			t.Errorf("a webhook changed the rules: %+v", v)
		}
		if _, err := store.Create(ctx, ada, sampleWebhook("pager")); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("a second one of the name: %v", err)
		}
		edit := w
		edit.Format, edit.Kinds, edit.DeniedPercent, edit.URL = "slack", nil, 0, want.URL+"2"
		edit.Normalize()
		if w, err = store.Update(ctx, ada, edit, 1); err != nil || w.Version != 2 || w.Format != "slack" ||
			w.DeniedPercent != 0 || w.URL != edit.URL {
			t.Fatalf("got %+v, %v", w, err)
		}
		if same, err := store.Update(ctx, ada, w, 2); err != nil || same.Version != 2 {
			t.Errorf("unchanged: %+v, %v", same, err)
		}
		if secrets, err := d.WebhookSecrets(ctx, w.ID); err != nil || len(secrets) != 1 || secrets[0] != want.Secret {
			t.Errorf("secrets %v, %v", secrets, err)
		}
		if _, err := d.RotateWebhook(ctx, ada, "pager", "whsec_bmV3", 1); !errors.Is(err, rules.ErrStale) {
			t.Errorf("stale: %v", err)
		}
		if w, err = d.RotateWebhook(ctx, ada, "pager", "whsec_bmV3", 2); err != nil || w.Version != 3 || w.Secret != "" {
			t.Fatalf("got %+v, %v", w, err)
		}
		now := d.now
		for after, n := range map[time.Duration]int{0: 2, 23 * time.Hour: 2, 25 * time.Hour: 1} {
			d.now = func() time.Time { return now().Add(after) }
			if secrets, err := d.WebhookSecrets(ctx, w.ID); err != nil || len(secrets) != n || secrets[0] != "whsec_bmV3" {
				t.Errorf("after %s: %v, %v", after, secrets, err)
			}
		}
		d.now = now
		if err := store.Delete(ctx, ada, "pager", 3); err != nil {
			t.Fatal(err)
		}
		if _, err := d.WebhookSecrets(ctx, w.ID); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("deleted: %v", err)
		}
		entries, err := d.ListAudit(ctx, audit.Query{SubjectKind: "webhook"})
		if err != nil || len(entries) != 4 || entries[1].Action != "rotate" || entries[1].Actor != ada {
			t.Fatalf("entries %+v, %v", entries, err)
		}
		for _, e := range entries {
			for _, hidden := range []string{want.Secret, "whsec_", "/services/"} {
				if text, _ := json.Marshal(e); strings.Contains(string(text), hidden) {
					t.Errorf("the audit log shows %s: %s", hidden, text)
				}
			}
		}
	})
}

func TestWebhooks_AreFew(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		for i := range alerts.MaxWebhooks {
			if _, err := d.Webhooks().Create(t.Context(), ada, sampleWebhook(fmt.Sprint("w", i))); err != nil {
				t.Fatal(err)
			}
		}
		var invalid *field.ValidationError
		if _, err := d.Webhooks().Create(t.Context(), ada, sampleWebhook("more")); !errors.As(err, &invalid) {
			t.Errorf("got %v", err)
		}
	})
}
