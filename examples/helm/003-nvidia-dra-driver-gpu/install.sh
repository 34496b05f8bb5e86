#!/bin/sh
set -eu
cd "$(dirname "$0")"
"${HELM:-helm}" upgrade --install nvidia-dra-driver-gpu oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu --version 0.5.0 \
  "$@" \
  --namespace nvidia-dra-driver --create-namespace \
  --reset-values --values values.yaml
