# cpu/rpc: the data plane's protocol, what rpcgen makes of it, and the transports.
#
# Generated files live in $(BUILD)/generated/cpu/rpc and are compiled with warnings off. rpcgen runs there, on a
# copy of the .x file: it makes names for includes and guards from the paths that it is given.
CPU_RPC_GENERATED := $(BUILD)/generated/cpu/rpc
CPU_RPC_HEADERS   := $(CPU_RPC_GENERATED)/cpu_rpc_prot.h $(CPU_RPC_GENERATED)/cpu_rpc_classes.h \
                     $(CPU_RPC_GENERATED)/manager_prot.h
CPU_RPC_OBJECTS   := $(call objects,$(addprefix cpu/rpc/,connect.c listener.c program.c quick.c \
                       $(addprefix call/,client.c client_read.c knock.c lane.c renew.c sender.c server.c) \
                       $(addprefix shm/,bar_device.c channel_pair.c channel_shm.c ring.c shm_bar.c shm_offer.c) \
                       $(addprefix transport/,address.c block.c channel.c channel_socket.c liveness.c) tls/tls_load.c) \
                       cpu/common/wire.c) \
                     $(CPU_RPC_GENERATED)/cpu_rpc_prot_xdr.o
# TLS, for those who accept it, and as a library of its own for those who may want it: all else does without OpenSSL.
CPU_RPC_TLS_OBJECTS := $(call objects,$(addprefix cpu/rpc/tls/,channel_tls.c tls_context.c tls_handshake.c \
                         tls_identity.c)) $(CPU_COMMON_CERTIFICATE_OBJECTS)
CPU_RPC_TLS_LIBS    := -lssl -lcrypto
# What a program asks its client manager, as the client core links it; and with it, for libraries and tools that only
# ask, how it is reached.
CPU_RPC_MANAGER_OBJECTS := $(CPU_RPC_GENERATED)/manager_prot_xdr.o
CPU_RPC_MANAGER_ASKS    := $(call objects,cpu/rpc/manager.c) $(CPU_RPC_MANAGER_OBJECTS)
$(call objects,cpu/rpc/manager.c): | $(CPU_RPC_HEADERS)
CPU_RPC_LIBS      := -ltirpc

# With the calls that are described in cpu/api. Nearly everything depends on it, so it is written only when it changes.
$(CPU_RPC_GENERATED)/cpu_rpc_prot.x: $(BUILD)/generated/api/forward/cpu_rpc_prot.x
	@mkdir -p $(@D)
	cmp -s $< $@ || cp $< $@
$(BUILD)/generated/api/forward/cpu_rpc_prot.x: cpu/rpc/cpu_rpc_prot.x

$(CPU_RPC_GENERATED)/manager_prot.x: cpu/rpc/manager_prot.x
	@mkdir -p $(@D)
	cp $< $@

# rpcgen refuses to overwrite, and leaves half a file behind when it fails.
CPU_RPC_RPCGEN = cd $(@D) && rm -f $(@F) && rpcgen -C -M $(1) -o $(@F) $(or $(2),cpu_rpc_prot.x) || \
                 { rm -f $(@F); exit 1; }

$(CPU_RPC_GENERATED)/cpu_rpc_prot.h: $(CPU_RPC_GENERATED)/cpu_rpc_prot.x
	$(call CPU_RPC_RPCGEN,-h)
$(CPU_RPC_GENERATED)/cpu_rpc_prot_xdr.c: $(CPU_RPC_GENERATED)/cpu_rpc_prot.x cpu/rpc/room.mk
	$(call CPU_RPC_RPCGEN,-c)
	@# quick.c has one of its own, which leaves the rarer forms to this one
	@grep -q '^xdr_flyt_head (XDR' $@ && sed -i 's/^xdr_flyt_head (XDR/xdr_flyt_head_rpcgen (XDR/' $@
$(CPU_RPC_GENERATED)/cpu_rpc_classes.h: $(CPU_RPC_GENERATED)/cpu_rpc_prot.x cpu/rpc/classes.awk
	@mkdir -p $(@D)
	awk -f cpu/rpc/classes.awk $< > $@

$(CPU_RPC_GENERATED)/manager_prot.h: $(CPU_RPC_GENERATED)/manager_prot.x
	$(call CPU_RPC_RPCGEN,-h,manager_prot.x)
$(CPU_RPC_GENERATED)/manager_prot_xdr.c: $(CPU_RPC_GENERATED)/manager_prot.x
	$(call CPU_RPC_RPCGEN,-c,manager_prot.x)

$(CPU_RPC_GENERATED)/manager_prot_xdr.o: $(CPU_RPC_GENERATED)/manager_prot.h
$(CPU_RPC_GENERATED)/%.o: $(CPU_RPC_GENERATED)/%.c $(CPU_RPC_GENERATED)/cpu_rpc_prot.h
	$(CC) $(ALL_CFLAGS) -w -I$(CPU_RPC_GENERATED) -MMD -MP -c $< -o $@

$(CPU_RPC_OBJECTS) $(CPU_RPC_TLS_OBJECTS): | $(CPU_RPC_HEADERS)

$(BIN)/libflyt-tls.so: $(CPU_RPC_TLS_OBJECTS) $(CPU_RPC_OBJECTS) $(CPU_CHECKPOINT_CIPHER) \
    $(call objects,cpu/common/clock.c cpu/common/env.c cpu/common/fd.c cpu/common/relayed.c) | $(AGED)
	@mkdir -p $(@D)
	$(CC) -shared -Wl,-soname,libflyt-tls.so $(ALONE) $(ALL_LDFLAGS) -o $@ $^ \
	    $(call inside,$(CPU_RPC_LIBS) $(CPU_RPC_TLS_LIBS))
PROGRAMS += $(BIN)/libflyt-tls.so
