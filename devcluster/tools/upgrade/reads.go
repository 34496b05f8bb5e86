package main

import (
	"context"
	"sync"

	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	appsv1client "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reads answers what the library asks once per node, from one list per look.
//
// The library gets every node and lists the revisions of its DaemonSet anew, one request after the other. The simulated
// fleet has shorter times than a real one, but no faster API server: at 100 nodes these requests took 0.4 s of each look.
type reads struct {
	kube      kubernetes.Interface
	mutex     sync.Mutex
	nodes     map[string]corev1.Node
	revisions map[string]*appsv1.ControllerRevisionList
}

// keep has the next read of a node return it as a write left it: the library reads each node that it has written, until
// the operator's cache shows the change.
func (r *reads) keep(node *corev1.Node) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.nodes != nil {
		r.nodes[node.Name] = *node.DeepCopy()
	}
}

// begin forgets what the last look read.
func (r *reads) begin() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.nodes = nil
	r.revisions = make(map[string]*appsv1.ControllerRevisionList)
}

// take returns a node once per look, and once after each write. Any other read of it goes to the API server.
//
// The list is read when the first node is asked for: after the pods, as the library reads its nodes.
func (r *reads) take(ctx context.Context, name string) (corev1.Node, bool, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.nodes == nil {
		found, err := r.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return corev1.Node{}, false, err
		}
		r.nodes = make(map[string]corev1.Node, len(found.Items))
		for _, node := range found.Items {
			r.nodes[node.Name] = node
		}
	}
	node, known := r.nodes[name]
	delete(r.nodes, name)
	return node, known, nil
}

// serve has a state manager read through r.
func (r *reads) serve(manager *upgrade.ClusterUpgradeStateManagerImpl, log logr.Logger, events record.EventRecorder) {
	provider := manager.NodeUpgradeStateProvider.(*upgrade.NodeUpgradeStateProviderImpl)
	provider.K8sClient = nodeReader{provider.K8sClient, r}
	manager.K8sInterface = kubeReader{manager.K8sInterface, r}
	manager.PodManager = upgrade.NewPodManager(manager.K8sInterface, provider, log, nil, events)
}

type nodeReader struct {
	client.Client
	reads *reads
}

// Get reads one object.
func (c nodeReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if node, wanted := into.(*corev1.Node); wanted {
		known, found, err := c.reads.take(ctx, key.Name)
		if err != nil {
			return err
		}
		if found {
			*node = known
			return nil
		}
	}
	return c.Client.Get(ctx, key, into, opts...)
}

// Patch writes one object.
func (c nodeReader) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	err := c.Client.Patch(ctx, object, patch, opts...)
	if node, wanted := object.(*corev1.Node); wanted && err == nil {
		c.reads.keep(node)
	}
	return err
}

type kubeReader struct {
	kubernetes.Interface
	reads *reads
}

// AppsV1 returns the client of apps/v1.
func (c kubeReader) AppsV1() appsv1client.AppsV1Interface {
	return appsReader{c.Interface.AppsV1(), c.reads}
}

type appsReader struct {
	appsv1client.AppsV1Interface
	reads *reads
}

// ControllerRevisions returns the client of a namespace's revisions.
func (c appsReader) ControllerRevisions(namespace string) appsv1client.ControllerRevisionInterface {
	return revisionReader{c.AppsV1Interface.ControllerRevisions(namespace), c.reads}
}

type revisionReader struct {
	appsv1client.ControllerRevisionInterface
	reads *reads
}

// List lists the revisions that a selector finds.
func (c revisionReader) List(ctx context.Context, options metav1.ListOptions) (*appsv1.ControllerRevisionList, error) {
	c.reads.mutex.Lock()
	known := c.reads.revisions[options.LabelSelector]
	c.reads.mutex.Unlock()
	if known != nil {
		return known, nil
	}
	found, err := c.ControllerRevisionInterface.List(ctx, options)
	if err == nil {
		c.reads.mutex.Lock()
		c.reads.revisions[options.LabelSelector] = found
		c.reads.mutex.Unlock()
	}
	return found, err
}
