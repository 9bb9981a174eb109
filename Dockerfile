# The image of ebbtide: one for webhook, reconciler, agent and commands.
#
#   docker build --tag ebbtide:0.1.0 .
#
# Every package comes from a lock with hashes (requirements/image.txt), so that building again brings the same ones; for the
# same base as well, give it by digest: --build-arg BASE=python:3.13-slim@sha256:…
ARG BASE=python:3.13-slim

# --- what is installed is put together here, with tools that the image does not get ---------------------------------
FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_INPUT=1 SOURCE_DATE_EPOCH=315532800
WORKDIR /src

# First what seldom changes, so that a change of the source does not fetch everything again. Binary packages only:
# nothing is compiled, and nothing that could compile has to be there.
COPY requirements/image.txt requirements/build.txt requirements/
RUN python -m venv --without-pip /opt/ebbtide \
 && python -m pip --python /opt/ebbtide/bin/python install --require-hashes --only-binary :all: \
      --requirement requirements/image.txt \
 && python -m pip install --require-hashes --only-binary :all: --requirement requirements/build.txt

COPY pyproject.toml README.md LICENSE ./
COPY certs certs
COPY ebbtide ebbtide
COPY reconciler reconciler
COPY webhook webhook
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/ebbtide/bin/python install --no-deps --no-index /wheels/ebbtide-*.whl

# --- the image ------------------------------------------------------------------------------------------------------
FROM ${BASE}
# Nothing is installed later, and whoever gets in should not be able to.
RUN python -m pip uninstall --yes --quiet pip && rm -rf /usr/local/lib/python3*/ensurepip
COPY --from=build /opt/ebbtide /opt/ebbtide
# Modules were compiled when they were installed: at run time the file system is read-only.
ENV PATH=/opt/ebbtide/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# By number, so that a kubelet can see that it is not root. The chart asks for the same one.
USER 65532:65532
WORKDIR /tmp
# No HEALTHCHECK: kubelets ask the probes of each program.
ENTRYPOINT ["ebbtide"]
