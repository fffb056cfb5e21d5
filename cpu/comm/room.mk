# cpu/comm: communication without CUDA: stores, links of several channels, pairs, collectives on host memory.
# Links by UCX are in, where its headers are (Debian: libucx-dev); the library is opened when it is wanted.
COMM_HAS_UCX     := $(if $(wildcard /usr/include/ucp/api/ucp.h),yes)
COMM_UCX_LEFT    := $(filter $(if $(COMM_HAS_UCX),%/without.c,$(filter-out %/without.c,$(wildcard cpu/comm/ucx/*.c))), \
                      $(wildcard cpu/comm/ucx/*.c))
CPU_COMM_SOURCES := $(filter-out $(COMM_UCX_LEFT),$(wildcard cpu/comm/*.c cpu/comm/*/*.c))
ifeq ($(COMM_HAS_UCX),)
.PHONY: comm-without-ucx
comm-without-ucx:
	@echo '  links by UCX: left out, since its headers (libucx-dev) are not there'
all: comm-without-ucx
endif
CPU_COMM_OBJECTS := $(call objects,$(filter-out cpu/comm/perf/%,$(CPU_COMM_SOURCES)))
# Loops over values, which become vector instructions.
CFLAGS_cpu_comm_reduce_reduce := $(if $(CHECKED),,-O3)
# Expanded late: cpu/rpc and cpu/common are read after this room. What a program needs beside it:
CPU_COMM_NEEDS    = $(CPU_RPC_OBJECTS) $(CPU_RPC_TLS_OBJECTS) $(CPU_COMMON_OBJECTS) $(call objects,cpu/common/secret.c)
CPU_COMM_LIBS     = $(CPU_RPC_TLS_LIBS) $(CPU_RPC_LIBS) -lm
.SECONDEXPANSION:
$(CPU_COMM_OBJECTS): | $$(CPU_RPC_HEADERS)

$(BIN)/flyt-comm-perf: $(call objects,$(wildcard cpu/comm/perf/*.c)) $(CPU_COMM_OBJECTS) $$(CPU_COMM_NEEDS) \
    $$(COORDINATOR_OBJECTS) $$(CPU_RPC_MANAGER_ASKS) $$(VERSION_OBJECT)
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CPU_COMM_LIBS)
PROGRAMS += $(BIN)/flyt-comm-perf
