// Upgrade moves nodes through a driver upgrade with NVIDIA's own library, as the GPU operator and the network operator do.
//
// A simulated operator runs one such process while it leads. The process ends when its standard input ends. It ignores
// SIGTERM, because an operator may continue after that signal (`simulate.oldOperatorLingers`).
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/NVIDIA/k8s-operator-libs/pkg/upgrade"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
)

// After an error the operators look again after the first pause, which doubles up to the longest one.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 3 * time.Second
)

func main() {
	var s settings
	flag.StringVar(&s.server, "server", "", "address of the API server")
	flag.StringVar(&s.account, "account", "", "directory with the ServiceAccount's token and ca.crt")
	flag.StringVar(&s.driver, "driver", "gpu", "name of the driver: gpu or ofed")
	flag.StringVar(&s.namespace, "namespace", "", "namespace of the driver's DaemonSets")
	flag.BoolVar(&s.modern, "modern", false, "as 26.7: upgrade policies of NVIDIADrivers, eviction of pods with claims")
	flag.DurationVar(&s.requeue, "requeue", 2*time.Minute, "look again after this time")
	flag.Parse()
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := run(ctx, s); err != nil {
		log.Fatal(err)
	}
}

type settings struct {
	server, account, driver, namespace string
	modern                             bool
	requeue                            time.Duration
}

func (s settings) config() *rest.Config {
	return &rest.Config{
		Host:            s.server,
		BearerTokenFile: filepath.Join(s.account, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(s.account, "ca.crt")},
		QPS:             -1, // As in the operators: the API server limits.
		// As their clients choose for what Kubernetes itself defines.
		ContentConfig: rest.ContentConfig{
			ContentType:        runtime.ContentTypeProtobuf,
			AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
		},
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return cached{next} },
	}
}

// cached has reads answered from the API server's memory, which follows etcd as the cache of the operators does: etcd
// itself is not asked. That halves the processor time of a read.
type cached struct{ http.RoundTripper }

// RoundTrip makes a request.
func (c cached) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method == http.MethodGet && !query.Has("watch") && !query.Has("resourceVersion") {
		query.Set("resourceVersion", "0")
		request = request.Clone(request.Context())
		request.URL.RawQuery = query.Encode()
	}
	return c.RoundTripper.RoundTrip(request)
}

// run reconciles whenever something wakes it, and after the requeue interval at the latest.
func run(ctx context.Context, s settings) error {
	upgrade.SetDriverName(s.driver)
	controller, err := newController(s)
	if err != nil {
		return err
	}
	wake, err := watch(ctx, s)
	if err != nil {
		return err
	}
	pause := firstPause
	for ctx.Err() == nil {
		wait := s.requeue
		if err := controller.reconcile(ctx); err != nil {
			log.Print(err)
			wait, pause = pause, min(2*pause, longestPause)
		} else {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-time.After(wait):
		}
	}
	return nil
}

// newRecorder returns a recorder that logs events: each change of a node's state is one. In the cluster, where the
// operators write them, nothing reads them, and they would be one in twenty requests.
func newRecorder(driver string) record.EventRecorder {
	component := map[string]string{"gpu": "nvidia-gpu-operator", "ofed": "nvidia-network-operator"}[driver]
	broadcaster := record.NewBroadcaster()
	broadcaster.StartEventWatcher(func(event *corev1.Event) {
		log.Printf("%s %s: %s", event.InvolvedObject.Kind, event.InvolvedObject.Name, event.Message)
	})
	return broadcaster.NewRecorder(upgrade.Scheme, corev1.EventSource{Component: component})
}
