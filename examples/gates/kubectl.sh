#!/bin/sh
# Waits until the run of the last release has succeeded with a driver version: kubectl.sh 580.126.20 [TIMEOUT]
set -eu
namespace=gpu-operator
status=configmap/gpu-operator-post-status

run=$(kubectl -n "$namespace" get "$status" -o jsonpath='{.data.runId}')
# One condition for each command: of several, older versions of kubectl take only the last one.
for condition in "{.data.driverVersion}=$1" "{.data.phase}=Succeeded" "{.data.succeededRunId}=$run"; do
  kubectl -n "$namespace" wait "$status" --timeout="${2:-30m}" --for=jsonpath="$condition"
done
# All of them at the same moment.
found=$(kubectl -n "$namespace" get "$status" -o jsonpath='{.data.driverVersion} {.data.phase} {.data.succeededRunId}')
[ "$found" = "$1 Succeeded $run" ]
