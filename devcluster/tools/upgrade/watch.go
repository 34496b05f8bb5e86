package main

import (
	"context"
	"maps"
	"time"

	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

var (
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	daemonSets = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "daemonsets"}
)

// changed reports whether a change of an object concerns the upgrade controller.
type changed func(before, after metav1.Object) bool

// triggers returns what wakes each operator's upgrade controller, as their sources have it. Pods wake neither.
func triggers(driver string) map[schema.GroupVersionResource]changed {
	if driver == "ofed" {
		always := func(_, _ metav1.Object) bool { return true }
		return map[schema.GroupVersionResource]changed{nicPolicies: always, daemonSets: always, nodes: metadataChanged}
	}
	return map[schema.GroupVersionResource]changed{
		clusterPolicies: specChanged, nvidiaDrivers: specChanged, daemonSets: specChanged, nodes: stateChanged,
	}
}

func specChanged(before, after metav1.Object) bool {
	return before.GetGeneration() != after.GetGeneration()
}

func metadataChanged(before, after metav1.Object) bool {
	return !maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!maps.Equal(before.GetAnnotations(), after.GetAnnotations())
}

func stateChanged(before, after metav1.Object) bool {
	key := upgrade.GetUpgradeStateLabelKey()
	return before.GetLabels()[key] != after.GetLabels()[key]
}

// watch returns a channel that holds a token after something changed.
func watch(ctx context.Context, s settings) (<-chan struct{}, error) {
	client, err := metadata.NewForConfig(s.config())
	if err != nil {
		return nil, err
	}
	wake := make(chan struct{}, 1)
	for kind, matters := range triggers(s.driver) {
		namespace, tweak := corev1.NamespaceAll, func(*metav1.ListOptions) {}
		if kind == daemonSets {
			namespace = s.namespace
			tweak = func(options *metav1.ListOptions) { options.LabelSelector = drivers[s.driver].String() }
		}
		factory := metadatainformer.NewFilteredSharedInformerFactory(client, time.Duration(0), namespace, tweak)
		if _, err := factory.ForResource(kind).Informer().AddEventHandler(waker(wake, matters)); err != nil {
			return nil, err
		}
		factory.Start(ctx.Done())
	}
	return wake, nil
}

// waker puts a token into a channel when an object comes, changes as it matters, or goes.
func waker(wake chan<- struct{}, matters changed) cache.ResourceEventHandler {
	signal := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { signal() },
		UpdateFunc: func(before, after any) {
			if matters(before.(metav1.Object), after.(metav1.Object)) {
				signal()
			}
		},
		DeleteFunc: func(any) { signal() },
	}
}
