package sandbox

import (
	"encoding/json"
	"io"
)

// Ready is the line that a sandbox process prints when it serves.
type Ready struct {
	URL        string      `json:"url"`
	Issuer     string      `json:"issuer"`
	AdminToken string      `json:"admin_token"`
	Clients    []Client    `json:"clients"`
	Users      []ReadyUser `json:"users"`
	Projects   []Project   `json:"projects"`
}

// ReadyUser is what a person needs to sign in.
type ReadyUser struct {
	Login        string `json:"login"`
	Password     string `json:"password"`
	Organisation string `json:"organisation"`
}

// Ready describes the running server. It holds secrets: test secrets, but all of them.
func (s *Server) Ready() Ready {
	r := Ready{URL: s.URL(), Issuer: s.Issuer(), AdminToken: s.AdminToken(), Clients: s.Clients(), Projects: s.Projects()}
	for _, u := range s.Users() {
		if u.Password != "" {
			r.Users = append(r.Users, ReadyUser{u.Login, u.Password, u.Organisation})
		}
	}
	return r
}

// WriteLine prints r as one line of JSON.
func (r Ready) WriteLine(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
