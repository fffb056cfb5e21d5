# cpu/client/graph: CUDA graphs and stream capture, for all front ends; a part of libflyt-client.so.
GRAPH_OBJECTS := $(call objects,$(wildcard cpu/client/graph/*.c))

# Expanded late: cpu/rpc is read after this room.
.SECONDEXPANSION:
$(GRAPH_OBJECTS): | $$(CPU_RPC_HEADERS)
$(BIN)/libflyt-client.so: $(GRAPH_OBJECTS)
