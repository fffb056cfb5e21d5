# Flyt. `make demo` and `make check` are the two commands; `make help` lists the rest.
#
# Each room has a room.mk, included here, which adds to:
#   PROGRAMS  programs and libraries to be found in bin/ (made by `make all`)
#   TESTS     commands that `make check` runs through tests/run (see there)
#   LONG_TESTS  the same for the long tests (tools/check-next)
#   CLEAN     what `make clean` removes beside build/ and bin/
# Objects go to build/<flavour>/<path>.o; SANITIZE=address,undefined|thread makes a flavour of its own, and so does
# FLYT_DEBUG_LOCKS=1, where functions check that the locks which they need are held (cpu/common/lock.h).
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

# Each target's name is shown once, when its recipe begins; V=1 shows the commands instead.
ifndef V
.SILENT:
show_once = $(if $(filter-out $(shown_last),$(1)),$(info $(empty)  $(1))$(eval shown_last := $(1)))
SHELL      = $(call show_once,$(filter build/% bin/%,$@))/bin/sh
endif

CC        ?= cc
ifeq ($(origin CC),default)
CC        := gcc
endif
SANITIZE  ?=
empty     :=
comma     := ,
CHECKED   := $(if $(SANITIZE)$(FLYT_DEBUG_LOCKS),yes)
FLAVOUR   := $(if $(SANITIZE),$(subst $(comma),-,$(SANITIZE)),$(if $(FLYT_DEBUG_LOCKS),locks,plain))
FLAVOUR   := $(FLAVOUR)$(if $(filter-out gcc cc,$(notdir $(CC))),-$(notdir $(CC)))
BUILD     := build/$(FLAVOUR)
BIN       := $(if $(filter plain,$(FLAVOUR)),bin,$(BUILD)/bin)

-include build/toolkit.mk
CUDA_HOME ?= /usr/local/cuda
NVCC      ?= $(CUDA_HOME)/bin/nvcc
CUDA_INCLUDE ?= $(CUDA_HOME)/include
# Of CUDA programs that need no newer one: the headers of C++17 make a third of the time that nvcc takes.
CUDA_STD  := -std=c++14

WARNINGS  := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wno-sign-conversion
OPTIMISE  := $(if $(CHECKED),-O1 -fno-omit-frame-pointer,-O2)
CFLAGS    ?= -g
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -pthread -fvisibility=hidden -ffp-contract=off $(OPTIMISE) $(WARNINGS) \
             $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined) \
             $(if $(CHECKED),-DFLYT_DEBUG_LOCKS) -I. -I$(BUILD)/generated -isystem /usr/include/tirpc \
             -isystem $(CUDA_INCLUDE) $(CFLAGS)
ALL_LDFLAGS = -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LINK_LTO) $(LDFLAGS)
# A call passes many small functions of many files, so the client's library and the server are optimised as a whole, by
# gcc. The same objects are linked one by one into the tests.
LTO        := $(if $(CHECKED),,$(if $(filter gcc cc,$(notdir $(CC))),-flto=auto))
NO_LTO     := $(if $(LTO)$(PLAIN_IS_MADE),-fno-lto)
LINK_LTO    = $(NO_LTO)
# QUICK=1 leaves that out: after a change of one file a build takes a second or two, and calls cost a little more.
WHOLE_LTO   = $(if $(LTO),$(if $(QUICK),-fno-lto,$(LTO) $(OPTIMISE) -Wno-stringop-overflow),$(NO_LTO))
$(foreach room,code common rpc client/core server,$(BUILD)/cpu/$(room)/%.o): OPTIMISE += \
    $(if $(LTO),$(LTO) -ffat-lto-objects)

# A build with the other value of QUICK links these again, so that nobody measures a quick build by mistake.
LINKED := $(BUILD)/linked-$(if $(QUICK),quick,whole)
$(LINKED):
	@mkdir -p $(@D) && rm -f $(BUILD)/linked-* && touch $@

# What a user's machine needs runs with the C library of older machines, too: its links have AGED_LDFLAGS, and $(AGED)
# behind the "|" of what they need. OLD_GLIBC= (nothing) links with this machine's.
OLD_GLIBC ?= $(if $(CHECKED),,2.31)
AGED      := $(if $(OLD_GLIBC),$(BUILD)/glibc-$(OLD_GLIBC)/libc.so)
AGED_LDFLAGS := $(if $(OLD_GLIBC),-L$(dir $(AGED)))
ifneq ($(AGED),)
$(AGED): tools/old-glibc cpu/common/old_glibc.c
	tools/old-glibc $(@D) $(OLD_GLIBC) '$(CC)'
endif

# A library of ours is loaded into somebody's program. $(call inside,-lzstd -ltirpc …) gives the archives of other
# projects' libraries, to be linked into it: the machine need not have them, and the program's own cannot take their
# place. What ALONE adds keeps their names, and every name that is not marked as exported, inside. Builds with a
# sanitizer take the shared ones, of which it knows the functions.
inside     = $(if $(SANITIZE),$(1),$(patsubst -l%,-l:lib%.a,$(filter-out -ldl -lm,$(1))) $(filter -ldl -lm,$(1)))
# A weak symbol that nobody of ours defines stays undefined, whatever the program has (a sanitizer's is the program's).
OWN_WEAK  := $(if $(SANITIZE),,-Wl$(comma)-z$(comma)nodynamic-undefined-weak)
# Functions of other libraries are looked up when a library of ours is loaded: to do that at the first call takes 3 KiB
# of the caller's stack, and a thread may have 16 KiB in all.
ALONE     := -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,relro,-z,now $(OWN_WEAK) $(AGED_LDFLAGS)

JOBS       ?= $(shell nproc)

PROGRAMS   :=
TESTS      :=
LONG_TESTS :=
CLEAN      :=

# $(call sleeping,names,tests) marks those tests whose program has one of these names: they need little of the
# processors.
sleeping = $(foreach test,$(2),$(test)$(if $(filter $(1),$(notdir $(test))),@sleeps))

# $(call script,command) is a recipe: the target becomes a script that runs the command with the words that it is given.
define script
@mkdir -p $(@D)
@printf '#!/bin/sh\nexec %s "$$@"\n' '$(strip $(1))' > $@
@chmod +x $@
endef

# $(call objects,a.c b.c) gives their object files.
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))

# The version of this build; the file is written only when the version is another.
VERSION_FILE := build/version
$(shell control-managers/packaging/version --into $(VERSION_FILE))

# What files of several rooms include, and cpu/api/room.mk and cpu/client/core/room.mk make.
API_INCLUDED := $(addprefix $(BUILD)/generated/api/,$(addprefix driver/,entries.inc errors.inc null.inc server.inc \
                  soft_per_thread.inc symbols.inc types.h) \
                  $(addprefix forward/,core.h defaults.inc hostile.inc server.h structures.h) launch_attributes.h) \
                $(BUILD)/generated/cpu/client/core/exported_names.h

$(BUILD)/%.o: %.c | $(API_INCLUDED)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(CFLAGS_$(subst /,_,$*)) -MMD -MP -c $< -o $@

# Most files know of no lock. `make lock-tests` (tests/tools/room.mk) takes their objects from the plain build, which it
# has brought up to date before: to compile them once more would take a minute. Generated files have rules of their own.
ifneq ($(PLAIN_IS_MADE),)
LOCKLESS := $(shell find $(addprefix build/plain/,cpu softgpu cudart-13) -name '*.d' -exec grep -L cpu/common/lock.h \
            {} +)
LOCKLESS := $(filter-out %/forwarded.o %/front.o %/entries.o,$(wildcard $(LOCKLESS:.d=.o)))
$(LOCKLESS:build/plain/%=$(BUILD)/%): $(BUILD)/%.o: build/plain/%.o
	@mkdir -p $(@D)
	sed 's,build/plain/,$(BUILD)/,g' build/plain/$*.d > $(BUILD)/$*.d
	cp $< $@
endif

# <room.mk>_TESTS and <room.mk>_LONG_TESTS are what one room has added, for `make print-tests`.
define read_room
include $(1)
$(1)_TESTS      := $$(wordlist $(words $(TESTS) x),$$(words $$(TESTS)),$$(TESTS))
$(1)_LONG_TESTS := $$(wordlist $(words $(LONG_TESTS) x),$$(words $$(LONG_TESTS)),$$(LONG_TESTS))
endef
ROOMS := $(sort $(wildcard cpu/*/room.mk cpu/client/*/room.mk cpu/server/*/room.mk softgpu/room.mk softgpu/*/room.mk \
    control-managers/room.mk synthetic_benchmark/room.mk tests/room.mk tests/*/room.mk))
$(foreach room,$(ROOMS),$(eval $(call read_room,$(room))))

.PHONY: all clean help demo demo-vm check check-long check-next gpu-check check-programs setup run-tests \
        test-programs lint format compile_commands.json fuzz

all: $(PROGRAMS)

help:
	@echo 'make demo            install what is missing, build, run a CUDA program through Flyt'
	@echo 'make demo-vm         the same in a virtual machine without a GPU, under QEMU'
	@echo 'make check           the same set-up, then all tests'
	@echo 'make run-tests ONLY=TEXT   the tests whose command contains TEXT: softgpu, core_memory, ctl.py …'
	@echo 'make lint            checks of scripts, Python and C, circles of files, long lines (part of make check)'
	@echo 'make format          clang-format on the lines that you changed since the last commit'
	@echo 'make compile_commands.json   for editors'
	@echo 'make check-next MINUTES=30   the long tests that have waited longest (tests/long.tsv); STATUS=1 shows them'
	@echo 'make check-long      all of the long tests: sanitizer builds, another compiler, fuzzing, scale; a day'
	@echo 'make fuzz            SECONDS=1800 of fuzzing, and what it reaches (TARGETS: exec rpc lanes control fatbin ptx'
	@echo '                     checkpoint comm_store comm_link)'
	@echo 'make gpu-check       on a machine with a GPU: programs natively and through Flyt, compared'
	@echo 'make check-programs DIR=...   run the public programs of tests/programs/programs.tsv, built in DIR;'
	@echo '                              with SOURCES=... (folder of checkouts) built first;'
	@echo '                              PROGRAMS_FLAGS=--measure compares in process, shared memory and TCP'
	@echo 'make guide-check     docs/setup.md, executed as it stands on machines in containers (as root)'
	@echo 'make bench           figures of forwarding against their limits'
	@echo 'make bench-softgpu   speed of the software GPU, beside PoCL, OpenMP, OpenBLAS'
	@echo 'make bench-softgpu-forms SOURCES=DIR   20 programs of HeCBench beside their OpenMP forms'
	@echo 'make bench-softgpu-training   a training step of PyTorch beside PyTorch on the processor'
	@echo 'make check-ptx DIR=...    which kernels of libraries and programs it can execute'
	@echo 'make check-libraries      cuBLAS, cuDNN, cuFFT, cuRAND, cuSOLVER, cuSPARSE and NCCL on it, against a processor'
	@echo 'make check-pytorch    Debian'"'"'s PyTorch trains on it, against a processor'
	@echo 'make install | uninstall   with DESTDIR, PREFIX (/usr/local); install-cmgrs: the managers only'
	@echo 'make install-cpu-client    what a VM needs'
	@echo 'make deb | deb-client     Debian packages: everything, and the software GPU'"'"'s compiler; or what a VM needs'
	@echo 'make dist                 the sources of the last commit, as an archive'
	@echo 'make all | clean     build into bin/ | empty it; QUICK=1 links without optimising, for daily work'

setup:
	@tools/setup --for build

# Set-up may choose the toolkit, so what builds with it is a second make.
demo:
	@tools/setup --for build
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@tools/demo

demo-vm:
	@tools/setup --for vm
	@$(MAKE) --no-print-directory -j$(JOBS) all build/cuda/vector_add
	@tools/demo-vm

# What the tests need beside programs (root file systems, a guest, servers) is fetched and unpacked while others
# compile.
check:
	@tools/setup --for check --without beds
	@$(MAKE) --no-print-directory -j$(JOBS) test-beds all test-programs
	@$(MAKE) --no-print-directory run-tests

.PHONY: test-beds
test-beds:
	@tools/setup --for check --only beds

check-next:
	@$(if $(STATUS),tools/check-next --status,tools/setup --for long && tools/check-next --minutes $(MINUTES))

check-long:
	@tools/setup --for long
	@tools/check-next --all

MINUTES := 30
# SECONDS in all; TARGETS: some of FUZZ_TARGETS (tests/fuzz/room.mk); JOBS of them at once.
SECONDS := 1800
TARGETS := $(FUZZ_TARGETS)
fuzz: $(addprefix $(BUILD)/fuzz/,$(TARGETS)) $(if $(filter fatbin,$(TARGETS)),$(BUILD)/fuzz/seeds/fatbin)
	@JOBS=$(JOBS) tests/fuzz/fuzz.sh $(BUILD) $(SECONDS) $(TARGETS)

gpu-check:
	@tools/setup --for build
	@$(MAKE) --no-print-directory -j$(JOBS) all cuda-tests gpu-facts build/bench/calls
	@tools/gpu-check

check-programs:
	@tools/setup --for build
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@$(if $(SOURCES),tests/programs/build $(SOURCES) $(DIR))
	@tools/check-programs $(DIR) $(PROGRAMS_FLAGS)

lint: all
	@tools/lint

format:
	@tools/format

compile_commands.json:
	@tools/compile-commands

# An item of TESTS is a command: a word, or several in quotes; `command@300` has a limit of 300 s, and
# `command@sleeps` runs beside others (tests/run). The programs under build/ that it names are built first; $(BIN),
# which a flavour has there too, is what `all` fills.
quote := "
tests_words = $(foreach word,$(subst @, ,$(subst $(quote),,$(1))),$(word))
tests_need = $(sort $(filter-out $(BIN) $(BUILD)/fuzz/corpus/%,$(filter $(BUILD)/%,$(call tests_words,$(1)))))
test-programs: $(call tests_need,$(TESTS))
# In other flavours only those that run something of the flavour: the rest is the same in the plain build.
ifdef ONLY
run-tests: all
	@$(MAKE) --no-print-directory $$(tests/run --only '$(ONLY)' --needs $(TESTS))
	@tests/run --only '$(ONLY)' $(TESTS)
else
run-tests: test-programs all
	@tests/run --again --longest-first $(if $(filter-out plain,$(FLAVOUR)),--only $(BUILD)/) $(TESTS)
endif
# For tools/check-next: the commands of each room, on lines of their own.
.PHONY: print-tests
print-tests:
	$(foreach room,$(ROOMS),$(foreach list,TESTS LONG_TESTS,$(info $(list) $(room) $($(room)_$(list)))))@:

clean:
	rm -rf build/plain build/address* build/thread* build/undefined* build/locks* $(CLEAN)
	find bin -mindepth 1 ! -name README.md -delete

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
