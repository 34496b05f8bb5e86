#!/bin/sh
set -eu
cd "$(dirname "$0")"
"${HELM:-helm}" upgrade --install gpu-operator gpu-operator --repo https://helm.ngc.nvidia.com/nvidia --version v26.3.3 \
  "$@" \
  --namespace gpu-operator --create-namespace \
  --reset-values --values values.yaml
