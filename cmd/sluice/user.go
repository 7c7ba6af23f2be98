package main

import (
	"bufio"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"sluice/internal/access"
	"sluice/internal/app"
	"sluice/internal/config"
)

type userCmd struct {
	Create  userCreateCmd  `cmd:"" help:"Create a console account; the password is read from standard input."`
	List    userListCmd    `cmd:"" help:"List all accounts."`
	Disable userDisableCmd `cmd:"" help:"Disable an account and end its sessions."`
	Passwd  userPasswdCmd  `cmd:"" help:"Change the password of an account (read from standard input) and end its sessions."`
}

// readPassword reads the first line of standard input, so that the password appears in
// no process list and no shell history.
func readPassword(p *process) (string, error) {
	fmt.Fprintf(p.errs, "password (one line on standard input, at least %d characters): ", access.MinPassword)
	line, err := bufio.NewReader(p.in).ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		if err != nil {
			return "", errors.New("standard input contains no password")
		}
		return "", errors.New("the password is empty")
	}
	fmt.Fprintln(p.errs)
	return line, nil
}

type userCreateCmd struct {
	config.Storage `embed:""`
	Name           string `arg:"" help:"Name to sign in with; a-z, 0-9 and . _ @ -"`
	Role           string `name:"role" default:"viewer" placeholder:"ROLE" help:"Role: viewer, editor or admin."`
}

// Run creates the account.
func (c *userCreateCmd) Run(p *process) error {
	role, err := access.ParseRole(c.Role)
	if err != nil {
		return fmt.Errorf("--role %w", err)
	}
	password, err := readPassword(p)
	if err != nil {
		return err
	}
	u, err := app.CreateUser(p.ctx, c.Storage, app.NewUser{Name: c.Name, Role: role, Password: password, By: p.user})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "Account %q (%s) was created.\n", u.Name, u.Role)
	return nil
}

type userListCmd struct {
	config.Storage `embed:""`
	JSON           bool `name:"json" help:"Print JSON."`
}

// userView is an account as the commands print it.
type userView struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	State     string `json:"state"`
	SignsInBy string `json:"signs_in_by"`
	CreatedBy string `json:"created_by"`
	LastLogin string `json:"last_login"`
}

// Run lists the accounts.
func (c *userListCmd) Run(p *process) error {
	list, err := app.Users(p.ctx, c.Storage)
	if err != nil {
		return err
	}
	views := make([]userView, len(list))
	for i, u := range list {
		views[i] = userView{Name: u.Name, Role: string(u.Role), State: "in force", SignsInBy: "password",
			CreatedBy: u.CreatedBy, LastLogin: day(u.LastLogin)}
		if u.External() {
			views[i].SignsInBy = "single sign-on"
		}
		if u.Disabled {
			views[i].State = "disabled"
		}
	}
	if c.JSON {
		return printJSON(p, views)
	}
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tROLE\tSTATE\tSIGN-IN\tCREATED BY\tLAST SIGN-IN")
	for _, v := range views {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, v.Role, v.State, v.SignsInBy, v.CreatedBy, v.LastLogin)
	}
	return w.Flush()
}

type userDisableCmd struct {
	config.Storage `embed:""`
	Name           string `arg:"" help:"Name of the account."`
}

// Run disables the account.
func (c *userDisableCmd) Run(p *process) error {
	u, err := app.DisableUser(p.ctx, c.Storage, c.Name, p.user)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "Account %q was disabled and its sessions were ended.\n", u.Name)
	return nil
}

type userPasswdCmd struct {
	config.Storage `embed:""`
	Name           string `arg:"" help:"Name of the account."`
}

// Run changes the password.
func (c *userPasswdCmd) Run(p *process) error {
	password, err := readPassword(p)
	if err != nil {
		return err
	}
	u, err := app.SetPassword(p.ctx, c.Storage, c.Name, password, p.user)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.out, "The password of account %q was changed and its sessions were ended.\n", u.Name)
	return nil
}
