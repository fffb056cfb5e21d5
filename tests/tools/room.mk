# What belongs to the project as a whole.
TESTS += "tests/tools/man.sh $(BIN)"
TESTS += "tests/tools/version.sh $(BIN)"
TESTS += tests/tools/circles.py
# What README.md and docs/setup.md say is in bin/.
TESTS += $(if $(filter bin,$(BIN)),tests/tools/first_steps.py)
run-tests: $(if $(filter bin,$(BIN)),build/cuda/vector_add)
