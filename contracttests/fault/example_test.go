package fault_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/drawbridge-dev/drawbridge/contracttests/fault"
)

// A ticket is stored, its answer is lost: the client knows nothing, the record knows all.
func Example() {
	org := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	}))
	defer org.Close()

	p, err := fault.Start(context.Background(), org.URL)
	if err != nil {
		panic(err)
	}
	defer p.Close()
	p.Next(fault.Rule{Method: "POST", Path: "/issues", Action: fault.LoseAnswer})

	_, err = http.Post(p.URL()+"/issues", "application/json", strings.NewReader(`{"title":"printer on fire"}`))
	fmt.Println("client got an error:", err != nil)
	for _, e := range p.Seen() {
		fmt.Println(e)
	}
	// Output:
	// client got an error: true
	// POST /issues [lose answer] upstream [201], client 0
}
