# docs/setup.md, command by command.
ifeq ($(FLAVOUR),plain)
TESTS += "tests/control/guide $(BIN) build/cuda/vector_add@300"
test-programs: build/cuda/vector_add
endif
