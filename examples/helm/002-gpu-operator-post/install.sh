#!/bin/sh
# Helm's default timeout of 5 minutes would end before the run does.
set -eu
cd "$(dirname "$0")"
"${HELM:-helm}" upgrade --install gpu-operator-post oci://registry.example/charts/gpu-operator-post --version 0.1.0 \
  "$@" \
  --namespace gpu-operator --create-namespace \
  --reset-values --values values.yaml \
  --timeout 27m
