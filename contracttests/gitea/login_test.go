package gitea

import (
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const grantForm = `<html><form method="post" action="/login/oauth/grant">
<input type="hidden" name="client_id" value="c&#34;1"> <input type="hidden" name="state" value="a&amp;b">
<input type="hidden" name="nonce" value=""> <input type="text" name="search" value="x">
<button type="submit" name="granted" value="true">Yes</button></form>`

func TestHiddenFields(t *testing.T) {
	want := url.Values{"client_id": {`c"1`}, "state": {"a&b"}, "nonce": {""}}
	if diff := cmp.Diff(want, hiddenFields(grantForm)); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// A page is foreign text. Whatever it holds, only what looks like a hidden input counts,
// and each of those once.
func FuzzHiddenFields(f *testing.F) {
	f.Add(grantForm)
	f.Add(`<input type="hidden" name="a" value="b`)
	f.Add(`<input><input type="hidden" name="">`)
	f.Fuzz(func(t *testing.T, page string) {
		n := 0
		for _, values := range hiddenFields(page) {
			n += len(values)
		}
		if most := strings.Count(page, "<input"); n > most {
			t.Errorf("%d fields from %d inputs", n, most)
		}
	})
}

// site is a sign-in page whose authorization page is up to the test.
func site(t *testing.T, authorize, grant http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /user/login", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("user_name") != "ana" || r.PostFormValue("password") != "right" {
			return // the page again, with a 200
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "ana", Path: "/"})
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	signedIn := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if c, err := r.Cookie("session"); err != nil || c.Value != "ana" {
				http.Redirect(w, r, "/user/login", http.StatusSeeOther)
				return
			}
			h(w, r)
		}
	}
	mux.HandleFunc("GET /login/oauth/authorize", signedIn(authorize))
	if grant != nil {
		mux.HandleFunc("POST /login/oauth/grant", signedIn(grant))
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func page200(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusSeeOther) }
}

const query = "/login/oauth/authorize?redirect_uri=http%3A%2F%2Fapp.test%2Fcallback&state=SECRET"

func TestLoginAnswersTheForm(t *testing.T) {
	for allow, want := range map[bool]string{true: "true", false: "false"} {
		s := site(t, page200(grantForm), func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			redirect("http://app.test/callback?"+r.PostForm.Encode())(w, r)
		})
		got, err := Login(t.Context(), nil, s.URL+query, "ana", "right", allow)
		if err != nil {
			t.Fatal(err)
		}
		form := url.Values{"client_id": {`c"1`}, "state": {"a&b"}, "nonce": {""}, "granted": {want}}
		if diff := cmp.Diff(form, got.Query()); diff != "" {
			t.Errorf("allow=%v: posted (-want +got):\n%s", allow, diff)
		}
	}
}

func TestLoginWithoutAQuestion(t *testing.T) {
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	s := site(t, redirect("http://app.test/callback?code=1"), nil)
	got, err := Login(t.Context(), client, s.URL+query, "ana", "right", false)
	if err != nil || got.String() != "http://app.test/callback?code=1" {
		t.Errorf("got %v, %v", got, err)
	}
	home, _ := url.Parse(s.URL)
	if len(jar.Cookies(home)) != 1 {
		t.Error("the caller's jar does not hold the session")
	}
	if client.CheckRedirect != nil {
		t.Error("the caller's client was changed")
	}
}

func TestLoginFailures(t *testing.T) {
	ok := redirect("http://app.test/callback?code=1")
	for name, tc := range map[string]struct {
		authorize, grant http.HandlerFunc
		address          string
		password         string
	}{
		"wrong password":         {authorize: ok, password: "wrong"},
		"error page":             {authorize: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(400) }},
		"no form":                {authorize: page200("<html>")},
		"grant fails":            {authorize: page200(grantForm), grant: page200("<html>")},
		"other host":             {authorize: redirect("http://evil.test/callback?code=1")},
		"other path":             {authorize: redirect("http://app.test/other?code=1")},
		"other scheme":           {authorize: redirect("https://app.test/callback?code=1")},
		"asks to sign in":        {authorize: redirect("/user/login")},
		"relative address":       {authorize: ok, address: "/login"},
		"not a URL":              {authorize: ok, address: "http://h\x7f/?SECRET"},
		"nobody at that address": {authorize: ok, address: "http://127.0.0.1:1/?state=SECRET"},
	} {
		s := site(t, tc.authorize, tc.grant)
		if tc.address == "" {
			tc.address = s.URL + query
		}
		if tc.password == "" {
			tc.password = "right"
		}
		got, err := Login(t.Context(), nil, tc.address, "ana", tc.password, true)
		if err == nil {
			t.Errorf("%s: got %v", name, got)
			continue
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error shows the address: %v", name, err)
		}
	}
}
