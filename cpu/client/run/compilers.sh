# shellcheck shell=sh
# compilers.sh: what the programs of this folder (nvcc, ptxas) share; they read it with ".". They stand for NVIDIA's
# programs of the same names where the GPU is Flyt's software GPU, which has no machine code.

# The folder of the program that reads this file.
own=$(dirname "$(readlink -f "$0")")

# Prints the path of the first program $1 in PATH that is not one of ours. Fails where there is none.
nvidia_program() {
    rest=$PATH:
    while [ -n "$rest" ]; do
        folder=${rest%%:*}
        rest=${rest#*:}
        if [ -f "${folder:-.}/$1" ] && [ -x "${folder:-.}/$1" ] && [ "$(readlink -f "${folder:-.}")" != "$own" ]; then
            echo "${folder:-.}/$1"
            return 0
        fi
    done
    return 1
}

# Is the first GPU Flyt's software GPU?
software_gpu() {
    [ "$("$own/../flyt-smi" --query-gpu=name --format=csv,noheader -i 0 2>/dev/null)" = "Flyt software GPU" ]
}

# Prints what stands before PTX whose kernels may take at most $1 registers (cpu/common/softgpu.h); empty: no bound.
register_bound() {
    case $1 in
        '' | *[!0-9]* | ????*) return 0 ;;
    esac
    if [ "$1" -lt 24 ]; then
        echo "// flyt: -maxrregcount=24" # the fewest that NVIDIA's assembler gives
    elif [ "$1" -lt 256 ]; then
        echo "// flyt: -maxrregcount=$1"
    fi
}
