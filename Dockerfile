# The image of the hook: Python, the libraries without their unused parts, and the program; no pip, no script.
#
# The base is written out with its digest, so that one commit builds on one base and Dependabot, which resolves no
# arguments, proposes the next. Those who need another registry or base say so:
#   docker build --build-arg BASE_IMAGE=registry.example/python:3.13-slim@sha256:… .
# It needs /bin/sh, rm and python3 (3.11 or later). The build stage needs the venv module as well; where a base is too
# small for that, BUILD_IMAGE names another one with the same Python. Nothing here depends on the architecture.
ARG BASE_IMAGE=base
ARG BUILD_IMAGE=${BASE_IMAGE}

FROM docker.io/library/python:3.13.16-slim-trixie@sha256:bf44cdfcb76cd3b41e879bc058fc37ec5872002ccfde7fcb765e218cde0cd79c AS base

FROM ${BUILD_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1
COPY requirements/runtime.txt /tmp/
# Only what is listed, and only as it was when it was listed. Behind a company's package mirror pass its
# configuration and authority as build secrets (pip-conf, pip-ca): they leave no trace in the image.
RUN --mount=type=secret,id=pip-conf --mount=type=secret,id=pip-ca \
    conf=/run/secrets/pip-conf; test ! -s $conf || export PIP_CONFIG_FILE=$conf; \
    ca=/run/secrets/pip-ca; test ! -s $ca || export PIP_CERT=$ca; \
    python3 -m venv --without-pip /opt/gpu-operator-post \
 && python3 -m venv /tmp/installer \
 && /tmp/installer/bin/pip --python /opt/gpu-operator-post/bin/python install --require-hashes --no-deps --no-compile \
        --only-binary=:all: -r /tmp/runtime.txt
COPY hook /tmp/hook
# PyYAML's C parser is for megabytes of text, and scripts of libraries are for people: neither is used here.
# Without bytecode every start compiles everything: it was measured at more than twice the memory (132 MB, over the
# pod's limit) and a second and a half longer. The file system is read-only in the cluster, so this is the only
# chance. "unchecked-hash" does not compare file times, which layers, rebuilds and reproducible builds all change;
# nothing can edit a source in a read-only image, so there is nothing to check either.
RUN site=$(/opt/gpu-operator-post/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
 && rm -f "$site"/yaml/*.so \
 && for script in /opt/gpu-operator-post/bin/*; do case $script in */python*) ;; *) rm "$script" ;; esac; done \
 && cp -r /tmp/hook "$site/hook" \
 && printf '#!%s\nfrom hook.cli import main\nmain()\n' /opt/gpu-operator-post/bin/python \
        > /opt/gpu-operator-post/bin/gpu-operator-post \
 && chmod 0755 /opt/gpu-operator-post/bin/gpu-operator-post \
 && /opt/gpu-operator-post/bin/python -m compileall -q -f --invalidation-mode unchecked-hash "$site" \
 && chmod -R a+rX,go-w /opt/gpu-operator-post

FROM ${BASE_IMAGE}
COPY LICENSE /licenses/LICENSE
COPY --from=build /opt/gpu-operator-post /opt/gpu-operator-post
# pip is of no use in a pod that cannot write. The official Python images ship their standard library without bytecode:
# what the program loads of it is a third, the last three of these modules only at work.
RUN python3 -m pip uninstall --yes pip > /dev/null 2>&1 || true; \
    rm -rf "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')/ensurepip" \
 && /opt/gpu-operator-post/bin/python -B -c 'import compileall, py_compile, sys; \
import hook.cli, hook.run.controller, hook.run.status, hook.kube.access, urllib3.contrib.socks; \
import difflib, encodings.ascii, encodings.idna; \
paths = {getattr(each, "__file__", None) or "" for each in list(sys.modules.values())}; \
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH; \
found = [path for path in paths if path.endswith(".py") and not path.startswith("/opt/")]; \
sys.exit(not all([compileall.compile_file(path, quiet=1, force=True, invalidation_mode=mode) for path in found]))'
ARG VERSION=0.1.0
ARG REVISION=unknown
# The release adds where the image comes from: the sources name no owner.
LABEL org.opencontainers.image.title="gpu-operator-post" \
      org.opencontainers.image.description="Refreshes the DRA kubelet plugins that a GPU driver upgrade left stale" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# PYTHONSAFEPATH keeps the working directory out of the module path: what a user mounts there is never imported.
# One arena: with one for each watching thread, memory that one has done with is lost to the others.
ENV MALLOC_ARENA_MAX=1 PYTHONSAFEPATH=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# For `kubectl exec … -- gpu-operator-post status`.
ENV PATH=/opt/gpu-operator-post/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
WORKDIR /
# A number, because Kubernetes cannot tell from a name that it is not root (runAsNonRoot).
USER 65532:65532
# Directly, without a shell: what Kubernetes signals is the program itself.
ENTRYPOINT ["/opt/gpu-operator-post/bin/python", "-m", "hook"]
