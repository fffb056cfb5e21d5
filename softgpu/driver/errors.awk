# errors.awk: the names of CUresult values out of cuda.h, as lines ERROR(CUDA_…)
/typedef enum cudaError_enum/ { inside = 1 }
/} *CUresult;/ { inside = 0 }
inside && match($0, /^ *CUDA_[A-Z0-9_]+ *=/) {
    name = substr($0, RSTART, RLENGTH)
    gsub(/[ =]/, "", name)
    print "ERROR(" name ")"
}
