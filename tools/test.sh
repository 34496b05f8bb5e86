#!/usr/bin/env bash
# What `make test` does: build what the tests need, run meanwhile the CHECKS, which need none of it, then run the tests.
# DEPLOYERS=1: also those with real deployment tools.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
node=
if [ "${REQUIRE_IMAGE:-}" ] || "$python" -m tools.image.check; then
  node=--node
fi
# Only one process builds at a time: these checks would wait for all others.
if [[ " $CHECKS " == *" lint "* ]]; then
  "$python" -m devcluster binaries actionlint helm-docs
fi
# Programs are built in the background at the lowest priority, in the order of their use: checks, downloads and tests
# leave processors idle. What the tests need is one command, so tests come before deployers.
programs="$python -m devcluster binaries $node"
if [ "${DEPLOYERS:-}" ]; then
  programs="$programs && $python -m devcluster binaries --deployers"
fi
set -m # a process group of its own, so that nothing of it outlives this script
# Its progress is lines between those of the checks, also on a terminal.
nice -n 19 bash -c "$programs" </dev/null >/dev/null 2> >(exec cat >&2) &
builds=$!
set +m
trap 'kill -- -"$builds" 2>/dev/null || true' EXIT
if [[ $CHECKS == *" "* ]]; then
  make --no-print-directory -Otarget -j2 $CHECKS
else
  make $CHECKS
fi
if [[ " $CHECKS " == *" test-site "* ]]; then
  export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-} --ignore=tests/release/test_site.py" # passed
fi
# One worker more than usual begins with what only computes, while the others wait.
run() {
  "$python" -m pytest -n $((WORKERS + 1)) --ignore=tests/unit --durations=10 -m "not large and not nightly" "$@" tests
}
if [ -z "${DEPLOYERS:-}" ]; then
  wait "$builds"
  run --ignore=tests/deployers
elif kill -0 "$builds" 2>/dev/null; then
  "$python" -m devcluster binaries $node >/dev/null # waits for those of the tests
  run --ignore=tests/deployers
  wait "$builds"
  make test-deployers
else # nothing was to be built: the tests with deployment tools, which mostly wait, run next to the others
  wait "$builds"
  run
fi
