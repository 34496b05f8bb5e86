#!/bin/sh
# Installs or upgrades all releases in this order, and passes the arguments to every helm command.
set -eu
cd "$(dirname "$0")"
for step in @@{steps}; do
  sh "$step/install.sh" "$@"
done
