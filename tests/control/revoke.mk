# Revoked certificates, and what administrators of each role may do.
$(BUILD)/tests/control_revoke: tests/control/revoke.py tests/control/hand.py build/cuda/forever | $(BIN)/flytctl $(BIN)/flyt-cluster-manager $(BIN)/flyt-node-manager $(BIN)/flyt-client-manager $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so $(BIN)/libflyt-tls.so
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/control/revoke.py %s build/cuda/forever\n' $(BIN) > $@
	@chmod +x $@
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_revoke@300)

# Daemons that are stopped, and clocks that are set.
$(BUILD)/tests/control_stopped: tests/control/stopped.py tests/control/hand.py build/cuda/forever build/cuda/vector_add | $(BIN)/flytctl $(BIN)/flyt-cluster-manager $(BIN)/flyt-node-manager $(BIN)/flyt-client-manager $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so $(BIN)/libflyt-tls.so
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/control/stopped.py %s build/cuda/forever build/cuda/vector_add\n' $(BIN) > $@
	@chmod +x $@
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_stopped@sleeps)
