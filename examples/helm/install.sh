#!/bin/sh
# Installs or upgrades all releases in this order, and passes the arguments to every helm command.
set -eu
cd "$(dirname "$0")"
for step in 001-gpu-operator 002-gpu-operator-post 003-nvidia-dra-driver-gpu; do
  sh "$step/install.sh" "$@"
done
