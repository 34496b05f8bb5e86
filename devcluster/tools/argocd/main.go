// The parts of Argo CD that sync Applications, in one program: `argocd ROLE FLAGS...`.
//
// The commands are Argo CD's own, as its cmd/main.go calls them. Its API server, web interface, command line and
// notifications are left out: nothing here talks to them, and they are a quarter of what would be compiled. The
// role `redis` is miniredis, which Argo CD itself uses where it runs without a Redis (`argocd --core`).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/argoproj/argo-cd/v3/util/log"
	"k8s.io/klog/v2"
)

func main() {
	role := ""
	if len(os.Args) > 1 {
		role = os.Args[1]
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	klog.SetLogger(log.NewLogrusLogger(log.NewWithCurrentConfig()))
	var err error
	switch role {
	case "application-controller":
		err = controller.NewCommand().Execute()
	case "repo-server":
		err = reposerver.NewCommand().Execute()
	case "redis":
		err = redis()
	default:
		err = fmt.Errorf("unknown role %q: application-controller, repo-server or redis", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// redis serves until it gets a signal. miniredis has no clock of its own, so that keys would never expire.
func redis() error {
	address := flag.String("address", "", "where to listen, as host:port")
	flag.Parse()
	server := miniredis.NewMiniRedis()
	server.RequireAuth(os.Getenv("REDIS_PASSWORD"))
	if err := server.StartAddr(*address); err != nil {
		return err
	}
	defer server.Close()
	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for {
		select {
		case <-seconds.C:
			server.FastForward(time.Second)
		case <-stop.Done():
			return nil
		}
	}
}
