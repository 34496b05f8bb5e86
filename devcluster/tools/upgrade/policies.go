package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/NVIDIA/k8s-operator-libs/api/upgrade/v1alpha1"
	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const ownerLabel = "nvidia.com/gpu-operator.driver.owner"

var (
	clusterPolicies = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"}
	nvidiaDrivers   = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "nvidiadrivers"}
	gpuClusters     = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "gpuclusters"}
	nicPolicies     = schema.GroupVersionResource{
		Group: "mellanox.com", Version: "v1alpha1", Resource: "nicclusterpolicies"}
)

// policies reads which nodes are upgraded, and how.
func (c *controller) policies(ctx context.Context) ([]policy, error) {
	if c.driver == "ofed" {
		return c.nicPolicy(ctx)
	}
	found, err := c.list(ctx, clusterPolicies)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		clusters, err := c.list(ctx, gpuClusters)
		if err != nil || len(clusters) == 0 {
			return nil, err
		}
		return c.driverPolicies(ctx)
	}
	spec := found[0].Object
	if sandboxes, _, _ := unstructured.NestedBool(spec, "spec", "sandboxWorkloads", "enabled"); sandboxes {
		return []policy{{spec: &v1alpha1.DriverUpgradePolicySpec{}}}, nil
	}
	delegates, _, _ := unstructured.NestedBool(spec, "spec", "driver", "useNvidiaDriverCRD")
	if delegates && c.modern {
		return c.driverPolicies(ctx)
	}
	own, err := c.gpuPolicy("", spec, "spec", "driver", "upgradePolicy")
	return []policy{own}, err
}

// driverPolicies returns the policy of each NVIDIADriver.
func (c *controller) driverPolicies(ctx context.Context) ([]policy, error) {
	drivers, err := c.list(ctx, nvidiaDrivers)
	if err != nil {
		return nil, err
	}
	var policies []policy
	for _, driver := range drivers {
		own, err := c.gpuPolicy(driver.GetName(), driver.Object, "spec", "upgradePolicy")
		if err != nil {
			return nil, err
		}
		policies = append(policies, own)
	}
	return policies, nil
}

func (c *controller) nicPolicy(ctx context.Context) ([]policy, error) {
	found, err := c.list(ctx, nicPolicies)
	if err != nil {
		return nil, err
	}
	spec := &v1alpha1.DriverUpgradePolicySpec{}
	for _, one := range found {
		if one.GetName() == "nic-cluster-policy" {
			if spec, err = decode(one.Object, "spec", "ofedDriver", "upgradePolicy"); err != nil {
				return nil, err
			}
		}
	}
	// That operator's policy has neither of these.
	spec.MaxUnavailable, spec.PodDeletion = nil, nil
	c.spareOperator(spec)
	return []policy{{spec: spec}}, nil
}

// gpuPolicy decodes an upgrade policy of the GPU operator and completes it with that operator's defaults.
func (c *controller) gpuPolicy(owner string, object map[string]any, fields ...string) (policy, error) {
	spec, err := decode(object, fields...)
	if err != nil {
		return policy{}, err
	}
	if spec.PodDeletion == nil {
		spec.PodDeletion = &v1alpha1.PodDeletionSpec{TimeoutSecond: 300}
	}
	c.spareOperator(spec)
	return policy{owner, spec}, nil
}

// spareOperator keeps a drain from the operator itself, as both operators do.
func (c *controller) spareOperator(spec *v1alpha1.DriverUpgradePolicySpec) {
	if spec.DrainSpec == nil {
		spec.DrainSpec = &v1alpha1.DrainSpec{}
	}
	selector := upgrade.GetUpgradeSkipDrainDriverPodSelector(c.driver)
	if spec.DrainSpec.PodSelector != "" {
		selector = spec.DrainSpec.PodSelector + "," + selector
	}
	spec.DrainSpec.PodSelector = selector
}

func decode(object map[string]any, fields ...string) (*v1alpha1.DriverUpgradePolicySpec, error) {
	given, _, err := unstructured.NestedMap(object, fields...)
	if err != nil {
		return nil, err
	}
	var spec v1alpha1.DriverUpgradePolicySpec
	return &spec, runtime.DefaultUnstructuredConverter.FromUnstructured(given, &spec)
}

// list returns all objects of a kind, the oldest first.
func (c *controller) list(ctx context.Context, kind schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	found, err := c.objects.Resource(kind).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found.Items, func(a, b unstructured.Unstructured) int {
		first, second := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(first.Compare(second.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found.Items, nil
}
