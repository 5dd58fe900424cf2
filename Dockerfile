# Two images from one file: --target operator and --target runtime. See docs/container-images.md.
# BASE is a Debian or Ubuntu image; one with Python 3.11 or newer is taken as it is.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS base
RUN command -v python3 > /dev/null || { \
        apt-get update \
        && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
            ca-certificates procps python3 \
        && rm -rf /var/lib/apt/lists/* /var/log/* /var/cache/ldconfig/aux-cache; }
RUN cut -d : -f 3 /etc/passwd | grep -qx 1000 || { \
        echo 'strandline:x:1000:1000::/tmp:/bin/sh' >> /etc/passwd \
        && echo 'strandline:x:1000:' >> /etc/group; }

# Whoever needs an index or a proxy of packages says so in secrets; they are in no layer.
FROM base AS builder
RUN python3 -c 'import ensurepip, venv' 2> /dev/null || { \
        apt-get update \
        && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
            python3-venv; }
RUN python3 -m venv /build/tools
WORKDIR /build
COPY e2e/images/inside/environment.py /build/
COPY constraints.txt /build/

# Apart, so that libraries are installed anew only when what is asked for has changed.
FROM builder AS needs
COPY pyproject.toml /build/
RUN /build/tools/bin/python environment.py needs operator operator lineage \
    && /build/tools/bin/python environment.py needs runtime \
        runtime cluster stores fields images statistics text video asking hub

FROM builder AS operator-libraries
COPY --from=needs /build/operator.txt /build/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/etc/build-ca.pem \
    /build/tools/bin/python environment.py libraries operator

FROM builder AS runtime-libraries
COPY --from=needs /build/runtime.txt /build/
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/etc/build-ca.pem \
    /build/tools/bin/python environment.py libraries runtime

FROM builder AS wheel
COPY README.md LICENSE pyproject.toml /build/
COPY crds/strandline_api /build/crds/strandline_api
COPY operator/strandline_operator /build/operator/strandline_operator
COPY pipelines/strandline /build/pipelines/strandline
COPY pipelines/strandline_packs /build/pipelines/strandline_packs
RUN --mount=type=secret,id=pip,target=/etc/pip.conf \
    --mount=type=secret,id=ca,target=/etc/build-ca.pem \
    /build/tools/bin/python environment.py wheel

FROM operator-libraries AS operator-product
COPY --from=wheel /build/wheels /build/wheels
COPY --from=base /var/lib/dpkg/status /build/status
COPY --from=base /usr/lib/os-release /build/os-release
COPY e2e/images/inside/bill.py /build/
RUN /build/tools/bin/python environment.py product
ARG SOURCE_DATE_EPOCH=0
RUN /build/tools/bin/python bill.py operator ${SOURCE_DATE_EPOCH}

FROM runtime-libraries AS runtime-product
COPY --from=wheel /build/wheels /build/wheels
COPY --from=base /var/lib/dpkg/status /build/status
COPY --from=base /usr/lib/os-release /build/os-release
COPY e2e/images/inside/bill.py /build/
RUN /build/tools/bin/python environment.py product
ARG SOURCE_DATE_EPOCH=0
RUN /build/tools/bin/python bill.py runtime ${SOURCE_DATE_EPOCH}

# A read-only root is enough for both: bytecode is there, and what they write goes to /tmp.
FROM base AS final
ENV PATH=/opt/strandline/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/tmp \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /tmp

FROM final AS operator
COPY --from=operator-libraries /opt/strandline /opt/strandline
COPY --from=operator-product /build/product /
ARG VERSION=""
ARG REVISION=""
ARG SOURCE=""
LABEL org.opencontainers.image.title="strandline-operator" \
      org.opencontainers.image.description="Runs CurationPipelines on Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 1000:1000
ENTRYPOINT ["strandline-operator"]
CMD []

FROM final AS runtime
ENV RAY_USAGE_STATS_ENABLED=0
COPY --from=runtime-libraries /opt/strandline /opt/strandline
COPY --from=runtime-product /build/product /
ARG VERSION=""
ARG REVISION=""
ARG SOURCE=""
LABEL org.opencontainers.image.title="strandline-runtime" \
      org.opencontainers.image.description="Head, workers and submitter of Strandline's Ray clusters" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 1000:1000
ENTRYPOINT []
CMD ["strandline", "--help"]
