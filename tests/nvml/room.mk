# libnvidia-ml.so.1 and flyt-smi. Not in the sanitizer builds: Python is not instrumented.
ifeq ($(SANITIZE),)
TESTS += "tests/nvml/nvml.py $(BIN) build/cuda/forever cpu/client/nvml/names.txt"
test-programs: build/cuda/forever
endif
