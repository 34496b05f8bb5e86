package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/NVIDIA/k8s-operator-libs/api/upgrade/v1alpha1"
	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// drivers holds, by a driver's name, the label of its DaemonSets and pods.
var drivers = map[string]labels.Set{
	"gpu":  {"app.kubernetes.io/component": "nvidia-driver"},
	"ofed": {"nvidia.com/ofed-driver": ""},
}

var errUnbound = errors.New("a driver pod is not bound to its node yet")

// controller is the operators' upgrade controller: it applies one or more upgrade policies with NVIDIA's state manager.
type controller struct {
	settings
	kube    kubernetes.Interface
	objects dynamic.Interface
	manager upgrade.ClusterUpgradeStateManager
	reads   *reads
}

func newController(s settings) (*controller, error) {
	kube, err := kubernetes.NewForConfig(s.config())
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(s.config())
	if err != nil {
		return nil, err
	}
	// Errors alone: the library records the rest as Events.
	logger := funcr.New(func(prefix, args string) { log.Print(prefix, args) }, funcr.Options{Verbosity: -1})
	recorder := newRecorder(s.driver)
	manager, err := upgrade.NewClusterUpgradeStateManager(logger, s.config(), recorder, upgrade.StateOptions{})
	if err != nil {
		return nil, err
	}
	reads := &reads{kube: kube}
	reads.serve(manager.(*upgrade.ClusterUpgradeStateManagerImpl), logger, recorder)
	if s.driver == "gpu" {
		// The operator's own selector is app=nvidia-operator-validator. That pod waits for the driver. The simulated
		// fleet has none, so the driver pod replaces it.
		manager = manager.WithPodDeletionEnabled(requestsGPU).WithValidationEnabled(drivers["gpu"].String())
		if s.modern {
			usesGPU := func(pod corev1.Pod) bool { return requestsGPU(pod) || claimsGPU(kube, pod) }
			manager = manager.WithPodDeletionEnabled(usesGPU).WithRestartOnlyPredicate(keepsDriver)
		}
	}
	return &controller{s, kube, objects, manager, reads}, nil
}

// reconcile moves every node by at most one state.
func (c *controller) reconcile(ctx context.Context) error {
	policies, err := c.policies(ctx)
	if err != nil {
		return err
	}
	var state *upgrade.ClusterUpgradeState
	for _, policy := range policies {
		if !policy.spec.AutoUpgrade {
			if err := c.forget(ctx, policy.owner); err != nil {
				return err
			}
			continue
		}
		if state == nil {
			if state, err = c.build(ctx); err != nil {
				return err
			}
		}
		if err := c.manager.ApplyState(ctx, policy.share(state), policy.spec); err != nil {
			return err
		}
	}
	return nil
}

// build reads all nodes with a driver pod.
//
// The library ignores a pod that is not bound yet. Its node then takes no place among the parallel upgrades, and
// another node may begin. That is rare with two minutes between two looks, but not with two seconds. So this program
// waits for such a pod, unless an orphaned pod keeps it off its node.
func (c *controller) build(ctx context.Context) (*upgrade.ClusterUpgradeState, error) {
	c.reads.begin()
	state, err := c.manager.BuildState(ctx, c.namespace, drivers[c.driver])
	if err != nil {
		return nil, err
	}
	seen := 0
	for _, nodes := range state.NodeStates {
		for _, node := range nodes {
			if node.IsOrphanedPod() {
				return state, nil
			}
			seen++
		}
	}
	options := metav1.ListOptions{LabelSelector: drivers[c.driver].String()}
	daemonSets, err := c.kube.AppsV1().DaemonSets(c.namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	for _, daemonSet := range daemonSets.Items {
		seen -= int(daemonSet.Status.DesiredNumberScheduled)
	}
	if seen < 0 {
		return nil, errUnbound
	}
	return state, nil
}

// forget removes the label with the state from nodes that are not upgraded automatically.
func (c *controller) forget(ctx context.Context, owner string) error {
	selector := upgrade.GetUpgradeStateLabelKey()
	if owner != "" {
		selector += "," + ownerLabel + "=" + owner
	}
	nodes, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, upgrade.GetUpgradeStateLabelKey())
	for _, node := range nodes.Items {
		_, err := c.kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// policy is the upgrade policy of the nodes of one owner; without an owner, of all nodes.
type policy struct {
	owner string
	spec  *v1alpha1.DriverUpgradePolicySpec
}

// share returns the part of a state that the policy is for.
func (p policy) share(state *upgrade.ClusterUpgradeState) *upgrade.ClusterUpgradeState {
	if p.owner == "" {
		return state
	}
	own := upgrade.NewClusterUpgradeState()
	for name, nodes := range state.NodeStates {
		for _, node := range nodes {
			if node.Node.Labels[ownerLabel] == p.owner {
				own.NodeStates[name] = append(own.NodeStates[name], node)
			}
		}
	}
	return &own
}

// requestsGPU reports whether a pod must leave its node before the driver does: it is active and requests a GPU.
func requestsGPU(pod corev1.Pod) bool {
	if !isActive(pod) {
		return false
	}
	for _, container := range pod.Spec.Containers {
		for _, list := range []corev1.ResourceList{container.Resources.Limits, container.Resources.Requests} {
			for name := range list {
				if strings.HasPrefix(string(name), "nvidia.com/gpu") || strings.HasPrefix(string(name), "nvidia.com/mig-") {
					return true
				}
			}
		}
	}
	return false
}

// claimsGPU reports the same of a pod with a ResourceClaim (26.7). A claim that cannot be read counts as one for a GPU.
func claimsGPU(kube kubernetes.Interface, pod corev1.Pod) bool {
	if !isActive(pod) {
		return false
	}
	generated := map[string]*string{}
	for _, status := range pod.Status.ResourceClaimStatuses {
		generated[status.Name] = status.ResourceClaimName
	}
	for _, reference := range pod.Spec.ResourceClaims {
		name := cmp.Or(reference.ResourceClaimName, generated[reference.Name])
		if name == nil {
			continue
		}
		claim, err := kube.ResourceV1().ResourceClaims(pod.Namespace).Get(context.Background(), *name, metav1.GetOptions{})
		if err != nil {
			return true
		}
		if claim.Status.Allocation == nil {
			continue
		}
		for _, device := range claim.Status.Allocation.Devices.Results {
			if device.Driver == "gpu.nvidia.com" && (device.AdminAccess == nil || !*device.AdminAccess) {
				return true
			}
		}
	}
	return false
}

func isActive(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending
}

// keepsDriver reports whether a restarted pod would keep the loaded driver (26.7): nothing needs to leave the node then.
func keepsDriver(running, desired *corev1.PodSpec) (bool, error) {
	before := digest(running)
	return before != "" && before == digest(desired), nil
}

func digest(pod *corev1.PodSpec) string {
	for _, container := range append(pod.InitContainers[:len(pod.InitContainers):len(pod.InitContainers)], pod.Containers...) {
		for _, variable := range container.Env {
			if variable.Name == "DRIVER_CONFIG_DIGEST" && variable.Value != "" {
				return variable.Value
			}
		}
	}
	return ""
}
