package connector_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Guarantee: RUN9
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
