# tests/lib: what tests of several rooms share.
TESTS_STUBS := $(call objects,tests/lib/stubs.c)
$(TESTS_STUBS): | $(CPU_RPC_HEADERS)
