# control-managers/node-manager: flyt-node-manager.
NODE_MANAGER_NAMES   := main.c schema.c node.c reports.c server.c start.c region.c files.c own.c sweep.c \
                       bounds.c launch.c root.c seccomp.c ports.c users.c listen.c cgroup.c shares.c bridges.c dial.c \
                       state.c workers.c gpu.c gpu_software.c gpu_nvidia.c card.c mps.c figures.c logs.c served.c \
                       works.c
NODE_MANAGER_OBJECTS := $(call objects,$(addprefix control-managers/node-manager/,$(NODE_MANAGER_NAMES)) \
                        control-managers/common/process.c cpu/common/driver_library.c)

$(NODE_MANAGER_OBJECTS): | $(CONTROL_COMMON_HEADERS)

$(BIN)/flyt-node-manager: $(NODE_MANAGER_OBJECTS) $(filter-out %/db_worker.o,$(CONTROL_COMMON_OBJECTS))
	@mkdir -p $(@D)
	$(CC) $(ALL_LDFLAGS) $^ $(CONTROL_COMMON_LIBS) -lseccomp -ldl -o $@
PROGRAMS += $(BIN)/flyt-node-manager
