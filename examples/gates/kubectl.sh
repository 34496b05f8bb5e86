#!/bin/sh
# Waits until the fleet is done with a driver version: kubectl.sh 580.126.20 [TIMEOUT]
set -eu
namespace=gpu-operator
status=configmap/gpu-operator-post-status

# One condition for each command: of several, older versions of kubectl take only the last one.
for condition in "{.data.driverVersion}=$1" "{.data.phase}=Succeeded"; do
  kubectl -n "$namespace" wait "$status" --timeout="${2:-30m}" --for=jsonpath="$condition"
done
# Both of them at the same moment.
found=$(kubectl -n "$namespace" get "$status" -o jsonpath="{.data.driverVersion} {.data.phase}")
[ "$found" = "$1 Succeeded" ]
