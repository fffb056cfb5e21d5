# Flyt. `make demo` and `make check` are the two commands; `make help` lists the rest.
#
# Each room has a room.mk, included here, which adds to:
#   PROGRAMS  programs and libraries to be found in bin/ (made by `make all`)
#   TESTS     commands that `make check` runs through tests/run (see there)
#   LONG_TESTS  the same for `make check-long`
#   CLEAN     what `make clean` removes beside build/ and bin/
# Objects go to build/<flavour>/<path>.o; SANITIZE=address,undefined|thread makes a flavour of its own.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

CC        ?= cc
ifeq ($(origin CC),default)
CC        := gcc
endif
SANITIZE  ?=
empty     :=
comma     := ,
FLAVOUR   := $(if $(SANITIZE),$(subst $(comma),-,$(SANITIZE)),plain)$(if $(filter-out gcc cc,$(notdir $(CC))),-$(notdir $(CC)))
BUILD     := build/$(FLAVOUR)
BIN       := $(if $(filter plain,$(FLAVOUR)),bin,$(BUILD)/bin)

-include build/toolkit.mk
CUDA_HOME ?= /usr/local/cuda
NVCC      ?= $(CUDA_HOME)/bin/nvcc
CUDA_INCLUDE ?= $(CUDA_HOME)/include

WARNINGS  := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wno-sign-conversion
OPTIMISE  := $(if $(SANITIZE),-O1 -fno-omit-frame-pointer,-O2)
CFLAGS    ?= -g
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -fPIC -pthread -fvisibility=hidden -ffp-contract=off $(OPTIMISE) $(WARNINGS) \
             $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined) -I. -I$(BUILD)/generated -isystem /usr/include/tirpc -isystem $(CUDA_INCLUDE) $(CFLAGS)
ALL_LDFLAGS = -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)

PROGRAMS   :=
TESTS      :=
LONG_TESTS :=
CLEAN      :=

# $(call objects,a.c b.c) gives their object files.
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(CFLAGS_$(subst /,_,$*)) -MMD -MP -c $< -o $@

include $(sort $(wildcard cpu/*/room.mk cpu/client/*/room.mk cpu/server/*/room.mk softgpu/room.mk softgpu/*/room.mk control-managers/room.mk synthetic_benchmark/room.mk tests/room.mk tests/*/room.mk))

.PHONY: all clean
all: $(PROGRAMS)

clean:
	rm -rf build/plain build/address* build/thread* $(CLEAN)
	find bin -mindepth 1 ! -name README.md -delete

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
