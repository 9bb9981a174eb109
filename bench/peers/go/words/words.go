// Package words holds what the two webhooks share: the labels, the flags, and which zones are blocked.
//
// The real thing learns the zones from a watch of nodes. Here they are a flag, which costs a peer nothing.
package words

import (
	"flag"
	"strings"
)

const (
	Pool         = "ebbtide/pool"
	NodeGroup    = "ebbtide/node-group"
	BlockedZones = "ebbtide/blocked-zones"
	Group        = "serverless.tidbcloud.com/node"
	Zone         = "topology.kubernetes.io/zone"
	Path         = "/mutate"
)

// Flags of a webhook.
type Flags struct {
	Port    int
	Certs   string              // folder with tls.crt and tls.key
	Blocked map[string][]string // zones by node group
}

// Parse reads the command line; -blocked is GROUP=ZONE,ZONE.
func Parse() Flags {
	var found Flags
	var blocked string
	flag.IntVar(&found.Port, "port", 0, "port of 127.0.0.1 to serve on")
	flag.StringVar(&found.Certs, "certs", "", "folder with tls.crt and tls.key")
	flag.StringVar(&blocked, "blocked", "", "GROUP=ZONE,ZONE")
	flag.Parse()
	group, zones, _ := strings.Cut(blocked, "=")
	found.Blocked = map[string][]string{group: strings.Split(zones, ",")}
	return found
}
