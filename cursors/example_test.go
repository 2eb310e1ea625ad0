package cursors_test

import (
	"fmt"

	"github.com/drawbridge-dev/drawbridge/connector"
	"github.com/drawbridge-dev/drawbridge/cursors"
	"github.com/drawbridge-dev/drawbridge/keys"
)

func Example() {
	secret, err := keys.Generate()
	if err != nil {
		panic(err)
	}
	ring, err := keys.Parse(secret)
	if err != nil {
		panic(err)
	}
	codec, err := cursors.New(cursors.Config{Keys: ring})
	if err != nil {
		panic(err)
	}
	binding := connector.CursorBinding{
		Connector: "tickets", Version: "1.0.0", Operation: "tickets.search",
		Tenant: "acme", Principal: "ann", Connection: "con_1", Resources: []string{"SUP"},
		Query: "digest of the question", PageSize: 20, AuthzVersion: 3,
	}
	cursor, err := codec.Seal(binding, []byte("page 2"))
	if err != nil {
		panic(err)
	}
	position, err := codec.Open(binding, cursor)
	fmt.Printf("%s, %v\n", position, err)

	binding.AuthzVersion++ // the connection's rights have changed
	_, err = codec.Open(binding, cursor)
	fmt.Println(err)
	// Output:
	// page 2, <nil>
	// CURSOR_INVALID
}
