# What belongs to the project as a whole.
TESTS += "tests/tools/man.sh $(BIN)"
TESTS += $(if $(filter bin,$(BIN)),"tests/tools/version.sh $(BIN)")
TESTS += "tests/tools/software.py $(BIN)"
TESTS += tests/tools/setup.sh
TESTS += $(addprefix tests/tools/,circles.py exports.py lines.py subjects.py runner.py check_next.py)
# What README.md and docs/setup.md say is in bin/.
TESTS += $(if $(filter bin,$(BIN)),tests/tools/first_steps.py)
run-tests: $(if $(filter bin,$(BIN)),build/cuda/vector_add)
# tools/lint reads the objects of the plain build. The time is that of a busy machine without kept results of cppcheck.
ifeq ($(FLAVOUR),plain)
TESTS      += "tools/lint shell python circles exports lines subjects format" "tools/lint c"@600 \
              tests/tools/examples.py@120
LONG_TESTS += "tools/lint c-tests"

# Unit tests of the rooms with threads once more (those that wait for time limits left out), and some programs, in a
# build where functions check that they hold the locks that they need. The sanitizers' builds check the same, so
# they run in check-long.
LOCK_TESTS := $(patsubst $(BUILD)/%,build/locks/%,$(filter-out %_process %_local %_pulse,$(TESTS_SERVER_BINARIES)) \
                $(TESTS_SOFTGPU_PROGRAMS) $(filter %calls %grids %faults %progress,$(EXEC_TEST_PROGRAMS)) \
                $(TESTS_CORE_NAMES:test_%=$(BUILD)/tests/core_%) $(filter-out %ring %liveness,$(TESTS_RPC_BINARIES)))
LOCK_PROGRAMS := $(addprefix build/cuda/,devices freed held joined lanes memory pinned streams stress threads)
# What the end-to-end programs need of bin/, and no more: the rest would be compiled for nothing.
LOCK_BIN := $(addprefix build/locks/bin/,cricket-rpc-server flyt-run libflyt-client.so libflyt-server.so \
            libflyt-tls.so \
                libsoftgpu.so cudart/libcudart.so.13)
.PHONY: lock-tests
lock-tests: $(LOCK_PROGRAMS) $(LOCK_BIN:build/locks/%=%) $(LOCK_TESTS:build/locks/%=$(BUILD)/%)
	@$(MAKE) --no-print-directory FLYT_DEBUG_LOCKS=1 PLAIN_IS_MADE=yes $(LOCK_BIN) $(LOCK_TESTS)
$(LOCK_TESTS): lock-tests
$(LOCK_TESTS): ;
LONG_TESTS += $(call sleeping,$(TESTS_SERVER_SLEEPING),$(LOCK_TESTS)) \
              "tests/cuda/e2e.py --bin build/locks/bin --transport unix $(LOCK_PROGRAMS)"
endif
