# docker build --target cpu -t autosched .                 estimates, emulation, checks: no GPU needed
# docker build --target cuda -t autosched:cuda .           times kernels: docker run --gpus all ...
FROM python:3.12-slim AS wheel
WORKDIR /source
COPY pyproject.toml setup.py README.md LICENSE ./
COPY autosched autosched
COPY cost_models cost_models
COPY measurements measurements
COPY search_spaces search_spaces
RUN SOURCE_DATE_EPOCH=1700000000 python -m pip wheel --no-deps --wheel-dir /wheels .

FROM python:3.12-slim AS cpu
# The emulator's runner is compiled on first use, by whichever compiler Debian has now.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
# NVRTC compiles kernels without a GPU, and the CUDA wheels find the driver that the host brings
RUN python -m pip install --no-cache-dir "$(ls /wheels/*.whl)[cuda13]" && rm -r /wheels
ENV AUTOSCHED_CACHE_DIR=/cache
VOLUME ["/cache", "/work"]
WORKDIR /work
ENTRYPOINT ["autosched"]
CMD ["doctor"]

FROM cpu AS cuda
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
RUN python -m pip install --no-cache-dir "matplotlib>=3.9" "psycopg[binary]>=3.2"
