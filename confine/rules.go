package confine

// Rules are everything that the process may do from now on.
type Rules struct {
	// Read are files and folders, with what is in them, that may be read. Those that
	// are not there are passed over.
	Read []string
	// Write are folders in which everything may be done but start a program. They
	// must be there.
	Write []string
	// Connect are the TCP ports that may be dialled, at any address.
	Connect []uint16
}

// Held says what the kernel enforces now. The zero value is nothing.
type Held struct {
	Files bool `json:"files"` // and with them, that no program is started
	Ports bool `json:"ports"` // dialling and listening
}

// System are the files that name resolution, certificates and time zones are read
// from, on the usual systems.
var System = []string{
	"/etc/resolv.conf", "/run/systemd/resolve", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols", "/etc/gai.conf", "/etc/mdns.allow",
	"/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/usr/local/share/certs",
	"/etc/localtime", "/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/etc/zoneinfo",
}
