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

# --- The image: the program, the certificates of public authorities, and an init that reaps what children leave behind.
# Neither Node nor Python is in it; docs/deployment.md tells how to derive an image with npx and uvx.
FROM debian:trixie-slim
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
ENV LOCKKEEPER_DATA_DIR=/data \
    LOCKKEEPER_LISTEN=0.0.0.0:8080
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --start-interval=2s --retries=3 \
    CMD ["lockkeeper", "healthcheck"]
ENTRYPOINT ["tini", "--", "lockkeeper"]
CMD ["serve"]
