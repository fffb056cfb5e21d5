# facts: what a driver really does; run natively on a machine with a GPU (make gpu-check does).
build/gpu/facts: tests/gpu/facts.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -pthread -isystem $(CUDA_INCLUDE) $< -o $@ -ldl

.PHONY: gpu-facts
gpu-facts: build/gpu/facts
