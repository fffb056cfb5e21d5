# cpu/client/managed: managed memory, for all front ends; a part of libflyt-client.so.
MANAGED_OBJECTS := $(call objects,$(wildcard cpu/client/managed/*.c))

# Expanded late: cpu/rpc is read after this room.
.SECONDEXPANSION:
$(MANAGED_OBJECTS): | $$(CPU_RPC_HEADERS)
$(BIN)/libflyt-client.so: $(MANAGED_OBJECTS)
