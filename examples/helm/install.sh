#!/bin/sh
# Installs or upgrades all releases, in this order; the arguments go to every helm.
set -eu
cd "$(dirname "$0")"
for step in 001-gpu-operator 002-gpu-operator-post 003-nvidia-dra-driver-gpu; do
  sh "$step/install.sh" "$@"
done
