# Revoked certificates, and what administrators of each role may do.
$(BUILD)/tests/control_revoke: tests/control/revoke.py build/cuda/forever | $(BIN)/flytctl $(BIN)/flyt-cluster-manager $(BIN)/flyt-node-manager $(BIN)/flyt-client-manager $(BIN)/flyt-run $(BIN)/cricket-rpc-server $(BIN)/libsoftgpu.so $(BIN)/libflyt-tls.so
	@mkdir -p $(@D)
	@printf '#!/bin/sh\nexec tests/control/revoke.py %s build/cuda/forever\n' $(BIN) > $@
	@chmod +x $@
TESTS += $(if $(findstring thread,$(FLAVOUR)),,$(BUILD)/tests/control_revoke@300)
