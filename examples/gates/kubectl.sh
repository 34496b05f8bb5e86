#!/bin/sh
# Waits until the run of the last release has succeeded with a driver version: kubectl.sh 580.126.20 [TIMEOUT]
set -eu
namespace=gpu-operator
status=configmap/gpu-operator-post-status

run=$(kubectl -n "$namespace" get "$status" -o jsonpath='{.data.runId}')
# A controller without the Job has no runs.
of_run=
[ -z "$run" ] || of_run='{.data.succeededRunId}'
# One condition for each command: of several, older versions of kubectl take only the last one.
for condition in "{.data.driverVersion}=$1" "{.data.phase}=Succeeded" ${run:+"$of_run=$run"}; do
  kubectl -n "$namespace" wait "$status" --timeout="${2:-30m}" --for=jsonpath="$condition"
done
# All of them at the same moment.
found=$(kubectl -n "$namespace" get "$status" -o jsonpath="{.data.driverVersion} {.data.phase} $of_run")
[ "$found" = "$1 Succeeded $run" ]
