# Tests of the description of CUDA (cpu/api).
TESTS_API_NVIDIA := --releases build/cuda-releases --include $(CUDA_INCLUDE) --libraries $(CUDA_LIBRARIES)
TESTS += "cpu/api/check.py $(TESTS_API_NVIDIA) --golden tests/api/golden" \
         "tests/api/description.py $(CUDA_INCLUDE)"
