# docs/setup.md, executed in containers that boot systemd: in short, and all of it in check-long and by guide-check.
ifeq ($(FLAVOUR),plain)
GUIDE      := tests/guide/run $(BIN) build/cuda/vector_add build/cuda/cluster_worker
TESTS      += tests/guide/reading.py "tests/guide/pages.py $(BIN) reading" "$(GUIDE) source one@sleeps,600"
LONG_TESTS += "$(GUIDE) build package shared@sleeps,1800" "tests/guide/pages.py $(BIN)@sleeps,1500"
test-programs run-long-tests: build/cuda/vector_add build/cuda/cluster_worker

.PHONY: guide-check
guide-check: all build/cuda/vector_add build/cuda/cluster_worker
	@tests/run --limit 1800 "$(GUIDE) all"
endif
