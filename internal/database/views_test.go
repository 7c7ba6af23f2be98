package database

import (
	"errors"
	"fmt"
	"testing"

	"gorm.io/gorm"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/field"
)

func TestSavedViews_BelongToOneAccount(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx := t.Context()
		vera, edda := mustUser(t, d, "vera", access.RoleViewer).ID, mustUser(t, d, "edda", access.RoleEditor).ID
		save := func(user, id int64, name, path string) error {
			return d.SaveView(ctx, user, access.SavedView{ID: id, Name: name, Path: path, Query: "mode=shadow"})
		}
		for _, name := range []string{" Shadow rules ", "Another"} {
			if err := save(vera, 0, name, "/console/rules"); err != nil {
				t.Fatal(err)
			}
		}
		list, err := d.SavedViews(ctx, vera)
		if err != nil || len(list) != 2 || list[0].Name != "Another" || list[1].Name != "Shadow rules" ||
			list[1].URL() != "/console/rules?mode=shadow" {
			t.Fatalf("got %+v, %v", list, err)
		}
		id := list[1].ID
		if err := save(vera, 0, "Shadow rules", "/console/rules"); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("a second one of the name: %v", err)
		}
		if err := save(vera, id, "Another", ""); !errors.Is(err, rules.ErrNameTaken) {
			t.Errorf("renamed to a name that is taken: %v", err)
		}
		for _, err := range []error{save(vera, 0, "Shadow rules", "/console/audit"), save(edda, 0, "Shadow rules",
			"/console/rules")} {
			if err != nil {
				t.Errorf("the name on another page, or of another person: %v", err)
			}
		}
		for _, err := range []error{save(edda, id, "Mine", ""), d.DeleteView(ctx, edda, id), save(999, 0, "a", "/console"),
			d.DeleteView(ctx, vera, 999)} {
			if !errors.Is(err, rules.ErrNotFound) {
				t.Errorf("of another person, or missing: %v", err)
			}
		}
		if err := save(vera, id, "Renamed", ""); err != nil {
			t.Fatal(err)
		}
		list, err = d.SavedViews(ctx, vera)
		if err != nil || len(list) != 3 || list[1].Name != "Renamed" || list[1].URL() != "/console/rules?mode=shadow" {
			t.Errorf("got %+v, %v", list, err)
		}
		if err := d.DeleteView(ctx, vera, id); err != nil {
			t.Fatal(err)
		}
		if err := d.writeIn(ctx, func(tx *gorm.DB) error { return tx.Delete(&userRow{}, vera).Error }); err != nil {
			t.Fatal(err)
		}
		var left int64
		if err := d.read.Model(&viewRow{}).Count(&left).Error; err != nil || left != 1 {
			t.Errorf("%d views are left without vera, %v; want that of edda", left, err)
		}
	})
}

// An account saves at most 50 views, also if two requests save the last one at once.
func TestSavedViews_AreFew(t *testing.T) {
	onEach(t, func(t *testing.T, d *DB) {
		ctx, vera := t.Context(), mustUser(t, d, "vera", access.RoleViewer).ID
		save := func(name string) error {
			return d.SaveView(ctx, vera, access.SavedView{Name: name, Path: "/console/rules"})
		}
		for i := range access.MaxSavedViews - 1 {
			if err := save(fmt.Sprint("view ", i)); err != nil {
				t.Fatal(err)
			}
		}
		saved := make(chan error, 1)
		err := d.writeIn(ctx, func(tx *gorm.DB) error { // another request, which saves the last one
			if err := d.lockUser(tx, vera); err != nil {
				return err
			}
			if err := tx.Create(&viewRow{UserID: vera, Name: "last", Path: "/console/rules"}).Error; err != nil {
				return err
			}
			go func() { saved <- save("too many") }()
			for waiting := 0; d.dialect == dialectPostgres && waiting == 0 && len(saved) == 0; {
				err := d.read.Raw("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'").
					Scan(&waiting).Error
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-saved; !errors.Is(err, access.ErrTooManyViews) {
			t.Errorf("one more: %v", err)
		}
		var invalid *field.ValidationError
		for _, name := range []string{"", "  ", "a\nb", string(make([]rune, 61))} {
			if err := save(name); !errors.As(err, &invalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}
