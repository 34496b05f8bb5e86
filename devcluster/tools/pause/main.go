// Pause is the first process of every pod's sandbox: it holds the pod's namespaces and reaps its orphans.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		reap()
	}
}

// reap collects every child that has ended.
func reap() {
	for {
		var status syscall.WaitStatus
		if child, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); child <= 0 || err != nil {
			return
		}
	}
}
