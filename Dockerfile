# syntax=docker/dockerfile:1

# --- The build: SQLite and the cryptography are compiled from source with the C compiler of the image. The
# program is built twice: the first one is run to learn what a call runs through. `--build-arg LOCKKEEPER_PROFILE=none`
# builds once.
FROM rust:1.95-slim-trixie AS build
WORKDIR /src
COPY . .
ARG LOCKKEEPER_PROFILE=
RUN rustup component add llvm-tools
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    cp "$(scripts/program)" /usr/local/bin/lockkeeper

# --- The slim image: the program, the certificates of public authorities, and an init that reaps what children leave behind.
# `docker build --target slim .`
FROM debian:trixie-slim AS slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --create-home --home-dir /home/lockkeeper lockkeeper \
    && install -d -o lockkeeper -g lockkeeper -m 0700 /data
COPY --from=build /usr/local/bin/lockkeeper /usr/local/bin/lockkeeper
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/lockkeeper/
USER 10001:10001
# A lockkeeper.toml that is mounted here is found without being named.
WORKDIR /etc/lockkeeper
# The data, and the home of the programs that the gateway starts: `npx` and `uvx` keep their caches there.
ENV LOCKKEEPER_DATA_DIR=/data \
    HOME=/home/lockkeeper \
    LOCKKEEPER_LISTEN=0.0.0.0:8080
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --start-interval=2s --retries=3 \
    CMD ["lockkeeper", "healthcheck"]
ENTRYPOINT ["tini", "--", "lockkeeper"]
CMD ["serve"]

FROM node:24-trixie-slim AS node
FROM ghcr.io/astral-sh/uv:0.13 AS uv

# --- The image: the same with Node and uv, for servers that `npx` and `uvx` start.
FROM slim
USER root
RUN apt-get update \
    && apt-get install -y --no-install-recommends libatomic1 libstdc++6 python3 \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
    && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules/npm /usr/local/lib/node_modules/npm
COPY --from=uv /uv /uvx /usr/local/bin/
USER 10001:10001
