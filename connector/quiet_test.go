package connector_test

import "strings"

// leaks reports whether any of the secrets is in a text.
func leaks(text string, secrets ...string) bool {
	for _, s := range secrets {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}
