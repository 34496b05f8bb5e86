#!/bin/sh
@@{comment}set -eu
cd "$(dirname "$0")"
"${HELM:-helm}" upgrade --install @@{arguments}
