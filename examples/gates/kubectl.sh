#!/bin/sh
# Waits until the run of the last release has succeeded with a driver version: kubectl.sh 580.126.20 [TIMEOUT]
set -eu
namespace=gpu-operator
status=configmap/gpu-operator-post-status

run=$(kubectl -n "$namespace" get "$status" -o jsonpath='{.data.runId}')
kubectl -n "$namespace" wait "$status" --timeout="${2:-30m}" \
  --for=jsonpath='{.data.driverVersion}'="$1" \
  --for=jsonpath='{.data.phase}'=Succeeded \
  --for=jsonpath='{.data.succeededRunId}'="$run"
