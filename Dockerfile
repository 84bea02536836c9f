# A static binary on an image that has nothing else in it.
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev gcc make
WORKDIR /src
COPY . .
RUN cargo build --profile dist --features jemalloc --locked --package flovyn \
    && install -d -o 65532 -g 65532 /out/data \
    && install -D -m 0755 target/dist/flovyn /out/usr/local/bin/flovyn

FROM scratch
COPY --from=build /out/usr/local/bin/flovyn /usr/local/bin/flovyn
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME /data
ENV FLOVYN_DATABASE_URL=sqlite:/data/flovyn.db \
    FLOVYN_GRPC_ADDRESS=0.0.0.0:9090 \
    FLOVYN_HTTP_ADDRESS=0.0.0.0:8080
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/flovyn"]
CMD ["server"]
