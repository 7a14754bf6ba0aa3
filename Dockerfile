# sysgym with the Linux backend. The kernel is the host's, and networks are built in it: hence --privileged.
#
#   docker build -t sysgym .
#   docker run --rm --privileged sysgym emulator check
#   docker run --rm --privileged sysgym run linux-dumbbell-100m --contender dctcp --backend linux
#
# EXTRAS=emulator,train brings PyTorch along, for trained policies: docker build --build-arg EXTRAS=emulator,train
FROM debian:bookworm-slim

RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv
WORKDIR /sysgym
COPY scripts/install_emulator.sh scripts/
RUN scripts/install_emulator.sh && rm -rf /var/lib/apt/lists/*

ARG EXTRAS=emulator
COPY . .
RUN python3 -m venv /opt/sysgym && \
    /opt/sysgym/bin/pip install --no-cache-dir --constraint constraints.txt ".[$EXTRAS]" && \
    rm -rf build src/*.egg-info

ENV PATH=/opt/sysgym/bin:$PATH
WORKDIR /root
ENTRYPOINT ["sysgym"]
