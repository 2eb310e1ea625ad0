package keys_test

import (
	"errors"
	"fmt"

	"github.com/drawbridge-dev/drawbridge/keys"
)

func Example() {
	secret, err := keys.Generate() // kept in an environment secret
	if err != nil {
		fmt.Println(err)
		return
	}
	ring, err := keys.Parse(secret)
	if err != nil {
		fmt.Println(err)
		return
	}

	sealed, err := ring.Seal([]byte("refresh token"), keys.Context("credentials", "tenant-1", "connection-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = ring.Open(sealed, keys.Context("credentials", "tenant-2", "connection-1"))
	fmt.Println("in another tenant's row:", errors.Is(err, keys.ErrIntegrity))

	// Turn the key over: add, wait until every process knows it, promote.
	next, err := ring.Add()
	if err == nil {
		err = ring.Promote(next)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := ring.Open(sealed, keys.Context("credentials", "tenant-1", "connection-1"))
	id, _ := keys.KeyID(sealed)
	fmt.Println("still opens:", string(token), err, "- to be sealed again:", id != ring.Primary())
	fmt.Println(ring)
	// Output:
	// in another tenant's row: true
	// still opens: refresh token <nil> - to be sealed again: true
	// keys.Ring[redacted]
}
