package console

import "net/http"

func (c *Console) signInPage(w http.ResponseWriter, r *http.Request, s *session) {
	c.render(w, r, s, http.StatusOK, "signin", page{Title: "Sign in", Command: "drawbridge serve"}, map[string]any{
		"Local": c.cfg.Local.Tenant != "", "Team": c.cfg.OIDC != nil, "Return": returnTo(r.URL.Query().Get("return")),
	})
}

// localPage only shows a button. What opens links by itself (a chat's preview, a
// browser's prefetch) uses nothing up.
func (c *Console) localPage(w http.ResponseWriter, r *http.Request, s *session) {
	c.render(w, r, s, http.StatusOK, "local", page{Title: "Sign in", Command: "drawbridge serve"}, r.URL.Query().Get("t"))
}

func (c *Console) localSignIn(w http.ResponseWriter, r *http.Request, s *session) {
	owner, err := c.useLocalLink(r.Context(), r.PostForm.Get("t"))
	if err == nil {
		err = c.signIn(r.Context(), w, s, owner, string(owner.Principal))
	}
	if err != nil {
		c.fail(w, r, s, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}
