// Strandline-dns is CoreDNS with the few plugins that a node in a test needs: names of Services,
// and nothing of the world outside, which the node cannot reach.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

// A directive that is not listed is not known, and the order is the one of a query's way.
func init() { dnsserver.Directives = []string{"bind", "ready", "errors", "kubernetes"} }

func main() { coremain.Run() }
