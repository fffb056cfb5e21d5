# What belongs to the project as a whole.
TESTS += "tests/tools/man.sh $(BIN)"
TESTS += "tests/tools/version.sh $(BIN)"
TESTS += tests/tools/circles.py tests/tools/lines.py
# What README.md and docs/setup.md say is in bin/.
TESTS += $(if $(filter bin,$(BIN)),tests/tools/first_steps.py)
run-tests: $(if $(filter bin,$(BIN)),build/cuda/vector_add)
# tools/lint reads the objects of the plain build. The time is that of a busy machine without kept results of cppcheck.
ifeq ($(FLAVOUR),plain)
TESTS      += "tools/lint shell python circles lines format" "tools/lint c"@300
LONG_TESTS += "tools/lint c-tests"
endif
