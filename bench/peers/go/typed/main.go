// A webhook as controller-runtime proposes it: a defaulter of typed pods; the patch is the difference between the pod as
// it came and the pod as it was left. It counts and times its requests, as controller-runtime does, and logs nothing.
package main

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"ebbtide/bench/peers/words"
)

type pods struct {
	blocked map[string][]string
}

// Default is called by controller-runtime for every pod that is created.
func (p pods) Default(_ context.Context, pod *corev1.Pod) error {
	group := pod.Labels[words.NodeGroup]
	if pod.Labels[words.Pool] == "" || group == "" || pod.Spec.NodeName != "" {
		return nil
	}
	pin(&pod.Spec, group)
	if zones := p.blocked[group]; len(zones) > 0 {
		exclude(&pod.Spec, zones)
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[words.BlockedZones] = strings.Join(zones, ",")
	}
	return nil
}

func pin(spec *corev1.PodSpec, group string) {
	if _, selects := spec.NodeSelector[words.Group]; !selects {
		if spec.NodeSelector == nil {
			spec.NodeSelector = map[string]string{}
		}
		spec.NodeSelector[words.Group] = group
	}
	taint := corev1.Taint{Key: words.Group, Value: group, Effect: corev1.TaintEffectNoSchedule}
	tolerates := func(each corev1.Toleration) bool {
		return (each.Key == taint.Key || each.Key == "" && each.Operator == corev1.TolerationOpExists) &&
			(each.Operator == corev1.TolerationOpExists || each.Value == group) &&
			(each.Effect == "" || each.Effect == taint.Effect)
	}
	if !slices.ContainsFunc(spec.Tolerations, tolerates) {
		spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
			Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: group, Effect: taint.Effect,
		})
	}
}

func exclude(spec *corev1.PodSpec, zones []string) {
	ours := corev1.NodeSelectorRequirement{Key: words.Zone, Operator: corev1.NodeSelectorOpNotIn, Values: zones}
	if spec.Affinity == nil {
		spec.Affinity = &corev1.Affinity{}
	}
	if spec.Affinity.NodeAffinity == nil {
		spec.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	node := spec.Affinity.NodeAffinity
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{ours}}
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term},
		}
		return
	}
	terms := node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for index := range terms {
		if len(terms[index].MatchExpressions) > 0 || len(terms[index].MatchFields) > 0 {
			terms[index].MatchExpressions = append(terms[index].MatchExpressions, ours)
		}
	}
}

func main() {
	flags := words.Parse()
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	utilruntime.Must(corev1.AddToScheme(scheme))
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: flags.Port, CertDir: flags.Certs})
	server.Register(words.Path, admission.WithDefaulter[*corev1.Pod](scheme, pods{flags.Blocked}))
	utilruntime.Must(server.Start(ctrl.SetupSignalHandler()))
}
