package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Role is what a person may do in a project.
type Role string

// Roles, from nothing to everything. A reader can't create; labels that the
// project does not know are dropped without a word unless a maintainer sends them.
const (
	RoleNone       Role = "none"
	RoleReader     Role = "reader"
	RoleMember     Role = "member"
	RoleMaintainer Role = "maintainer"
)

// User is a person who can sign in, or the account of a service client.
type User struct {
	Login        string `json:"login"`
	Password     string `json:"password,omitempty"` // empty for service accounts
	Subject      string `json:"subject"`
	Name         string `json:"name"`
	Organisation string `json:"organisation"` // its id
	Email        string `json:"email"`
	Phone        string `json:"phone"`
}

// Organisation owns projects and accounts; nothing crosses it.
type Organisation struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Project holds tickets.
type Project struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Organisation string `json:"organisation"`
}

var organisations = []Organisation{{"acme", "Acme"}, {"globex", "Globex"}}

var projects = []Project{
	{"orders", "Order platform", "acme"},
	{"web", "Web shop", "acme"},
	{"secret", "Project Nightjar", "acme"},
	{"ops", "Operations", "globex"},
}

// defaultAccess is the matrix the access tests are written against.
var defaultAccess = map[string]map[string]Role{
	"alice":          {"orders": RoleMaintainer, "web": RoleMember},
	"bob":            {"orders": RoleMaintainer, "web": RoleMaintainer, "secret": RoleMaintainer},
	"guest":          {"web": RoleReader},
	"carol":          {"ops": RoleMaintainer},
	"acme-automaton": {"orders": RoleMember, "web": RoleMember},
}

func defaultUsers(seed int64) []User {
	make1 := func(login, name, org string) User {
		return User{
			Login: login, Password: derive(seed, "password "+login), Subject: "acct-" + login, Name: name, Organisation: org,
			Email: login + "." + derive(seed, "mail "+login)[:8] + "@mail.example",
			Phone: "+1-555-" + derive(seed, "phone "+login)[:10],
		}
	}
	users := []User{
		make1("alice", "Alice Adler", "acme"),
		make1("bob", "Bob Brandt", "acme"),
		make1("guest", "Gus Guest", "acme"),
		make1("carol", "Carol Chen", "globex"),
		make1("acme-automaton", "Acme automation", "acme"),
	}
	users[len(users)-1].Password = ""
	return users
}

// derive gives a secret that is fixed by the seed, so that a configuration file
// written for one run still fits the next.
func derive(seed int64, what string) string {
	m := hmac.New(sha256.New, []byte("sandbox "+strconv.FormatInt(seed, 10)))
	m.Write([]byte(what))
	return hex.EncodeToString(m.Sum(nil))[:24]
}

// Users returns everyone, passwords included, service accounts last.
func (s *Server) Users() []User { return append([]User(nil), s.world.users...) }

// Projects returns all projects of all organisations.
func (s *Server) Projects() []Project { return append([]Project(nil), projects...) }

func (w *world) user(login string) *User {
	for i := range w.users {
		if w.users[i].Login == login {
			return &w.users[i]
		}
	}
	return nil
}

func organisation(id string) Organisation {
	for _, o := range organisations {
		if o.ID == id {
			return o
		}
	}
	return Organisation{}
}

func projectIndex(id string) int {
	for i := range projects {
		if projects[i].ID == id {
			return i
		}
	}
	return -1
}
