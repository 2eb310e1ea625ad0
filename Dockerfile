# The binary, certificates to trust and nothing else. `make image` builds both
# files into the context; there is no base image to pull and no shell inside.
FROM scratch
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY drawbridge /drawbridge
COPY --chown=65532:65532 data /data
USER 65532:65532
VOLUME /data
EXPOSE 7433
ENTRYPOINT ["/drawbridge", "--data", "/data"]
CMD ["--help"]
