# The image of the hook: Python, three libraries with their hashes, and the program; no shell script, no pip.
#
# The base is an argument, so that those who need another registry or a pinned digest can say so:
#   docker build --build-arg BASE_IMAGE=registry.example/python:3.13-slim@sha256:… .
# It needs a python3 (3.11 or later); the build stage needs its venv module as well.
ARG BASE_IMAGE=python:3.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv /opt/gpu-operator-post
COPY requirements/runtime.txt /tmp/requirements.txt
# Only what is listed, and only as it was when it was listed.
RUN /opt/gpu-operator-post/bin/python -m pip install --require-hashes --no-deps --no-compile -r /tmp/requirements.txt \
 && /opt/gpu-operator-post/bin/python -m pip uninstall --yes pip
COPY hook /tmp/hook
# Without bytecode every start compiles everything: it was measured at more than twice the memory (132 MB, over the
# pod's limit) and a second and a half longer. The file system is read-only in the cluster, so this is the only chance.
# "unchecked-hash" does not look at file times, which differ from build to build.
RUN site=$(/opt/gpu-operator-post/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
 && cp -r /tmp/hook "$site/hook" \
 && /opt/gpu-operator-post/bin/python -m compileall -q --invalidation-mode unchecked-hash "$site"

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gpu-operator-post" \
      org.opencontainers.image.description="Refreshes the DRA kubelet plugins that a GPU driver migration left stale" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# pip is of no use in a pod that cannot write. The official Python images ship their standard library without bytecode.
RUN python3 -m pip uninstall --yes pip > /dev/null 2>&1 || true; \
    stdlib=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))') \
 && rm -rf "$stdlib/ensurepip" \
 && python3 -m compileall -q -x '/tests?/|/site-packages/|/dist-packages/' --invalidation-mode unchecked-hash "$stdlib"
COPY --from=build /opt/gpu-operator-post /opt/gpu-operator-post
COPY LICENSE /licenses/LICENSE
# PYTHONSAFEPATH keeps the working directory out of the module path: what a user mounts there is never imported.
ENV PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# A number, because Kubernetes cannot tell from a name that it is not root (runAsNonRoot).
USER 65532:65532
ENTRYPOINT ["/opt/gpu-operator-post/bin/python", "-m", "hook"]
