// A controller-runtime manager that keeps typed nodes in its cache and does nothing about any of them; the cluster is
// that of $KUBECONFIG.
//
// It asks for protobuf, as controller-runtime does for nodes where nobody says otherwise; with -json it asks for JSON, as
// it does for custom resources, and as all other clients do here.
package main

import (
	"context"
	"flag"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func reconciled(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, nil
}

func main() {
	json := flag.Bool("json", false, "ask for JSON")
	flag.Parse()
	ctrl.SetLogger(zap.New())
	config := ctrl.GetConfigOrDie()
	if *json {
		config.ContentType = runtime.ContentTypeJSON
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metrics.Options{BindAddress: "0"}})
	utilruntime.Must(err)
	utilruntime.Must(ctrl.NewControllerManagedBy(manager).For(&corev1.Node{}).Complete(reconcile.Func(reconciled)))
	utilruntime.Must(manager.Start(ctrl.SetupSignalHandler()))
}
