package manifest_test

import (
	"fmt"

	"github.com/drawbridge-dev/drawbridge/connector/manifest"
)

func ExampleParse() {
	_, err := manifest.Parse([]byte(`{
  "manifest": 1, "id": "desk", "version": "1.0.0", "owner": "support",
  "provider": "example_desk", "provider_api_version": "3", "api_token": "...",
  "auth": {"kind": "oauth2_authorization_code", "scopes": ["desk:read"]},
  "capabilities": [
    {"name": "desk.get", "scopes": ["desk:read"], "effect": "read", "approval": false}
  ],
  "output": {"excluded": [], "preserved": []},
  "limitations": []
}`))
	fmt.Println(err)
	// Output:
	// line 3, column 60: "/api_token" is not a key of this format
	// line 6, column 5: "/capabilities/0" lacks the key sensitivity
}
