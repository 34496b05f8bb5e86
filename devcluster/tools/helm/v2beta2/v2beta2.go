// Package v2beta2 gives the names that flagger, a library of helmfile, knows of an API that Kubernetes has removed.
//
// helmfile's own go.mod holds k8s.io/api back for it. With these it takes the same libraries of Helm, and most of
// what it is built from is compiled already. No cluster here has a Canary, which is all that flagger reads by them.
package v2beta2

import v2 "k8s.io/api/autoscaling/v2"

type (
	HorizontalPodAutoscalerBehavior = v2.HorizontalPodAutoscalerBehavior
	MetricTargetType                = v2.MetricTargetType
)
