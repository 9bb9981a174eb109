// Command certmanager runs cert-manager's own code: its controllers, or its CA injector.
//
// From 1.12 on the module of cert-manager has no commands: those lie in modules that no proxy serves, since their
// paths are not the ones of their folders. What they start is in the module itself, and is all here but for leader
// election, metrics and the issuers that need somebody outside the cluster.
//
//	certmanager controller KUBECONFIG
//	certmanager cainjector KUBECONFIG
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	logf "github.com/cert-manager/cert-manager/pkg/logs"
	ctrl "sigs.k8s.io/controller-runtime"
)

var roles = map[string]func(ctx context.Context, kubeconfig string) error{
	"controller": issue,
	"cainjector": inject,
}

func main() {
	if len(os.Args) != 3 || roles[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: certmanager controller|cainjector KUBECONFIG")
		os.Exit(2)
	}
	ctrl.SetLogger(logf.Log)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := roles[os.Args[1]](logf.NewContext(ctx, logf.Log), os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
