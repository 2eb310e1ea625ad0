package webhooks

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// allowed says whether a request comes from where its provider is said to post
// from. It is a second lock on a door that has a signature; a provider that
// nothing is said about may post from anywhere.
func (s *Service) allowed(provider string, req *http.Request) bool {
	from, listed := s.senders[provider]
	if !listed {
		return true
	}
	sender, ok := s.sender(req)
	return ok && within(from, sender)
}

// sender is the address that a request comes from. What X-Forwarded-For says is
// believed as far as proxies of ours wrote it, so from the right: all that is left
// of the first address that is none of theirs came from the sender itself.
func (s *Service) sender(req *http.Request) (netip.Addr, bool) {
	peer, err := netip.ParseAddrPort(req.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	at := plainAddress(peer.Addr())
	hops := strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ",")
	for within(s.proxies, at) && len(hops) > 0 {
		last := strings.TrimSpace(hops[len(hops)-1])
		hops = hops[:len(hops)-1]
		hop, err := netip.ParseAddr(last)
		if err != nil {
			return netip.Addr{}, false
		}
		at = plainAddress(hop)
	}
	return at, true
}

// plainAddress makes ::ffff:192.0.2.1 the IPv4 address that it is.
func plainAddress(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

func within(all []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
}
