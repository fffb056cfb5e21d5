# Tests of the description of CUDA (cpu/api).
TESTS += "cpu/api/check.py --releases build/cuda-releases --include $(CUDA_INCLUDE) --libraries $(CUDA_LIBRARIES) --golden tests/api/golden" \
         "tests/api/description.py $(CUDA_INCLUDE)"
