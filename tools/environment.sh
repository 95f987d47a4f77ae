#!/bin/sh
# Makes .venv from locks/dev.txt, and again when the lock, the project file or Python has changed. Needs a Python with
# pip or venv, and nothing else; brings uv itself where there is none. Safe to call from several processes.
set -eu
cd "$(dirname "$0")/.."

# Where .venv is active its own Python comes first, which must not be what it is made of.
PATH=${PATH#"$PWD/.venv/bin:"}
UV_VERSION=0.13.8
export UV_PYTHON_DOWNLOADS=never UV_NO_PROGRESS=1

fail() {
    echo "environment: $1" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13 python3.14}; do
        if is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "no Python 3.11 or newer among '${PYTHON:-python3, python3.11 … python3.14}'; install one (Debian: apt-get install python3 python3-venv) or set PYTHON"
}

is_workable_uv() {
    "$1" --version 2>/dev/null | grep -qE '^uv (0\.([89]|[1-9][0-9])|[1-9][0-9]*)\.'
}

find_uv() {
    for candidate in uv .cache/uv/bin/uv .cache/uv-venv/bin/uv; do
        if is_workable_uv "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "environment: bringing uv $UV_VERSION into .cache" >&2
    rm -rf .cache/uv .cache/uv-venv
    if "$1" -m pip --version >/dev/null 2>&1; then
        "$1" -m pip install --quiet --disable-pip-version-check --target .cache/uv "uv==$UV_VERSION" >&2 ||
            fail "pip could not install uv $UV_VERSION; see its message above"
        echo .cache/uv/bin/uv
    elif "$1" -m venv .cache/uv-venv >/dev/null 2>&1; then
        .cache/uv-venv/bin/pip install --quiet --disable-pip-version-check "uv==$UV_VERSION" >&2 ||
            fail "pip could not install uv $UV_VERSION; see its message above"
        echo .cache/uv-venv/bin/uv
    else
        rm -rf .cache/uv-venv
        fail "$1 has neither pip nor a working venv; install one (Debian: apt-get install python3-venv) or uv"
    fi
}

mkdir -p .cache
exec 9>.cache/environment.lock
flock 9

python=$(find_python)
wanted=$(cat locks/dev.txt pyproject.toml tools/environment.sh | sha256sum | cut -d' ' -f1)" $python"
if [ "$(cat .venv/.synced 2>/dev/null)" = "$wanted" ] && .venv/bin/python -c '' 2>/dev/null; then
    touch .venv/.synced
    exit 0
fi

uv=$(find_uv "$python")
echo "environment: making .venv from locks/dev.txt with $python" >&2
rm -f .venv/.synced
[ "$(cat .venv/.python 2>/dev/null)" = "$python" ] && .venv/bin/python -c '' 2>/dev/null ||
    "$uv" venv --quiet --clear --no-project --python "$python" .venv
echo "$python" >.venv/.python
"$uv" pip sync --quiet --require-hashes --python .venv/bin/python locks/dev.txt
# Everything that builds the project is in the lock too, so its build needs no environment of its own.
"$uv" pip install --quiet --no-deps --no-build-isolation --python .venv/bin/python --editable .
echo "$wanted" >.venv/.synced
