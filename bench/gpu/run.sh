#!/usr/bin/env bash
# Tokens a second, share of peak (MFU) and peak memory of a training step on one CUDA device, at 124 M and 1.3 B weights.
# Needs a CUDA build of torch 2.11 or newer and `pip install -e .`; nothing else. Usage: bench/gpu/run.sh [python]
set -euo pipefail
cd "$(dirname "$0")/../.."
exec "${1:-python}" -m bench.gpu
