# names.awk: the functions that an nvml.h declares, for names.txt:
#     awk -f cpu/client/nvml/names.awk nvml.h | LC_ALL=C sort -u > cpu/client/nvml/names.txt
# (PyPI: nvidia-nvml-dev). names.txt is kept, so that the build needs no header of NVIDIA's.
/ DECLDIR / && match($0, /nvml[A-Za-z0-9_]+ *\(/) {
    name = substr($0, RSTART, RLENGTH)
    sub(/ *\($/, "", name)
    print name
}
