package sandbox

import (
	"bytes"
	"html"
	"html/template"
	"net/http"
)

// page wraps a body into a document that reads well with and without a screen.
func page(title, body string) []byte {
	t := html.EscapeString(title)
	return []byte(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>` + t + `</title>
<style>
body { font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 3rem auto; padding: 0 1rem; color: #1b1b1b; background: #fff; }
label { display: block; margin-top: 1rem; }
input { font: inherit; width: 100%; padding: .4rem; box-sizing: border-box; border: 1px solid #595959; }
button { font: inherit; margin: 1.5rem 1rem 0 0; padding: .4rem 1.2rem; }
:focus-visible { outline: 3px solid #0b57d0; outline-offset: 2px; }
.error { color: #a30000; }
</style>
</head>
<body>
<main>
<h1>` + t + `</h1>
` + body + `
</main>
</body>
</html>
`)
}

var loginBody = template.Must(template.New("login").Parse(
	`{{if .Error}}<p class="error" role="alert">{{.Error}}</p>
{{end}}<form method="post" action="login" data-form="login">
<input type="hidden" name="transaction" value="{{.ID}}">
<label for="login">Login</label>
<input id="login" name="login" value="{{.Login}}" autocomplete="username" required autofocus>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required>
<button type="submit">Sign in</button>
</form>`))

var consentBody = template.Must(template.New("consent").Parse(
	`<p>You are signed in as <strong>{{.Name}}</strong> of {{.Organisation}}.</p>
<p>The application <strong>{{.Client}}</strong> asks for:</p>
<ul>
{{range .Scopes}}<li>{{.Text}} <code>{{.Name}}</code></li>
{{end}}</ul>
<form method="post" action="consent" data-form="consent" data-login="{{.Login}}">
<input type="hidden" name="transaction" value="{{.ID}}">
<button type="submit" name="decision" value="allow">Allow</button>
<button type="submit" name="decision" value="deny">Deny</button>
</form>`))

var scopeText = map[string]string{
	"tickets:read":    "Read the tickets you can see",
	"tickets:write":   "Create tickets in your name",
	"profile:read":    "See who you are",
	"webhooks:manage": "Be told of changes",
	"offline_access":  "Do so while you are away",
}

func loginPage(status int, id, login, problem string) answer {
	var b bytes.Buffer
	loginBody.Execute(&b, struct{ ID, Login, Error string }{id, login, problem})
	return htmlAnswer(status, "Sign in to the sandbox organisation", b.String())
}

func (s *Server) consentForm(id string, t *transaction, login string) answer {
	type scope struct{ Name, Text string }
	u := s.world.user(login)
	data := struct {
		ID, Login, Name, Organisation, Client string
		Scopes                                []scope
	}{ID: id, Login: login, Name: u.Name, Organisation: organisation(u.Organisation).Name, Client: t.client}
	for _, name := range t.scopes {
		data.Scopes = append(data.Scopes, scope{name, scopeText[name]})
	}
	var b bytes.Buffer
	consentBody.Execute(&b, data)
	return htmlAnswer(http.StatusOK, "Allow access?", b.String())
}

func errorPage(status int, text string) answer {
	return htmlAnswer(status, "This can't go on", `<p class="error" role="alert">`+html.EscapeString(text)+`</p>`)
}

func htmlAnswer(status int, title, body string) answer {
	a := answer{status: status, ctype: "text/html; charset=utf-8", body: page(title, body)}
	a.set("Cache-Control", "no-store")
	a.set("X-Frame-Options", "DENY")
	// No form-action: browsers apply it to the redirect after the form too, and
	// that one leads to the client.
	a.set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'")
	a.set("Referrer-Policy", "no-referrer")
	return a
}
