# cpu/common: logging, ids, time. No CUDA, no connections.
# wire.c (the heads of ONC RPC messages) needs libtirpc and is named by the rooms that use it.
CPU_COMMON_OBJECTS := $(call objects,$(addprefix cpu/common/,bridge_message.c clock.c driver_library.c \
                        driver_names.c env.c fd.c fd_message.c gaps.c ids.c log.c past_cache.c patch.c \
                        relayed.c share_order.c texref.c tree.c version_default.c))
# Which certificates are revoked; for programs that link OpenSSL.
CPU_COMMON_CERTIFICATE_OBJECTS := $(call objects,cpu/common/certificate.c)
# Tickets and secrets of the control plane, for those who issue and those who check them; these need libcrypto.
CPU_COMMON_TICKET_OBJECTS := $(call objects,cpu/common/ticket.c cpu/common/secret.c)

# The version of this build stands in one object: see version.h.
VERSION_OBJECT := $(call objects,cpu/common/version.c)
$(VERSION_OBJECT): $(VERSION_FILE)
$(VERSION_OBJECT): ALL_CFLAGS += -DFLYT_BUILD_VERSION='"$(file <$(VERSION_FILE))"'
$(addprefix $(BIN)/,cricket-rpc-server libflyt-client.so libflyt-server.so flyt-run flyt-smi cudart/flyt-nvml flytctl \
  flyt-cluster-manager flyt-node-manager flyt-client-manager flyt-monitor): $(VERSION_OBJECT)
