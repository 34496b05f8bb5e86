// Chainsaw with its command `assert` alone. Its test runner implements an interface of the package testing that Go 1.26
// has changed.
package main

import (
	"os"

	"github.com/go-logr/logr"
	"github.com/kyverno/chainsaw/pkg/commands/assert"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.Discard())
	root := &cobra.Command{Use: "chainsaw"}
	root.AddCommand(assert.Command())
	if err := root.Execute(); err != nil {
		os.Exit(1)
	}
}
