package transport

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// resolverRole marks the child of TestBothResolvers and names its resolver.
const resolverRole = "TRANSPORT_TEST_RESOLVER"

// addressTests are run again under each resolver.
const addressTests = "^(TestNumericHosts|TestAddressForms|TestRebinding|TestGuard|TestExceptionOpens|TestPlainHTTPReaches|" +
	"TestDialerKnows|TestBaseURLs|TestRedirectElsewhere|TestProxyAddress|TestEnvironmentProxy)"

// Guarantee: NET2
// The system's resolver reads 127.1 and 2130706433 as addresses, Go's own does
// not (G11), so both are tried, whichever this machine would choose.
func TestBothResolvers_G11(t *testing.T) {
	if os.Getenv(resolverRole) != "" {
		t.Skip("this is the child")
	}
	for _, name := range []string{"go", "cgo"} {
		t.Run(name, func(t *testing.T) {
			if name == "cgo" && !builtWithCgo {
				if os.Getenv("CI") == "true" {
					t.Fatal("this binary was built without cgo; CI must set CGO_ENABLED=1 and have a C compiler")
				}
				t.Skip("this binary was built without cgo, so the system's resolver is not in it")
			}
			t.Parallel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, self, "-test.run="+addressTests, "-test.v=true")
			cmd.Env = append(os.Environ(), "GODEBUG=netdns="+name, resolverRole+"="+name)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestNumericHosts") {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// With the gate off, the guard alone keeps numeric hosts from this machine.
func TestNumericHostsAreStoppedByTheGuard_G11(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			c.Close()
		}
	}()
	defer func() { l.Close(); <-done }()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	judged := map[string]bool{}
	for _, host := range []string{
		"127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "0", "localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::",
	} {
		o := origin{scheme: "https", host: host, port: port, dial: net.JoinHostPort(host, strconv.Itoa(int(port)))}
		e := &endpoint{places: places{base: o}, limits: Limits{Dial: 5 * time.Second}}
		c, err := e.dialer(nil, nil)(t.Context(), "tcp", o.dial)
		if err == nil {
			c.Close()
			t.Errorf("%s was reached", host)
		}
		var stop *errBlocked
		judged[host] = errors.As(err, &stop)
	}
	if n := accepted.Load(); n != 0 {
		t.Errorf("%d connections came through", n)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "::"} {
		if !judged[host] {
			t.Errorf("%s was not stopped by the guard", host)
		}
	}
	// Shows that the child really has the resolver it was asked for.
	if role := os.Getenv(resolverRole); role != "" && judged["2130706433"] != (role == "cgo") {
		t.Errorf("with the %s resolver a plain number was judged as an address: %t", role, judged["2130706433"])
	}
}
