# control-managers/common: the control plane's protocol and what the daemons and flytctl share.
#
# As in cpu/rpc, generated files live in $(BUILD)/generated and are compiled with warnings off.
CONTROL_COMMON_GENERATED := $(BUILD)/generated/control-managers/common
CONTROL_COMMON_HEADERS   := $(CONTROL_COMMON_GENERATED)/control_prot.h $(CONTROL_COMMON_GENERATED)/control_procedures.h
# What of cpu/ the control plane uses: logging, tickets and secrets, and the heads of ONC RPC messages.
CONTROL_COMMON_CPU := $(call objects,$(addprefix cpu/common/,certificate.c clock.c env.c fd.c log.c secret.c \
                        fd_message.c share_order.c ticket.c version_default.c wire.c))
CONTROL_COMMON_NAMES := authority.c renewal.c config.c config_values.c daemon.c db_worker.c hello.c link.c loop.c \
                        loop_address.c loop_conn.c loop_connect.c loop_listen.c loop_rpc.c map.c notify.c protocol.c \
                        tls.c
CONTROL_COMMON_OBJECTS := $(call objects,$(addprefix control-managers/common/,$(CONTROL_COMMON_NAMES))) \
                          $(CONTROL_COMMON_GENERATED)/control_prot_xdr.o $(CONTROL_COMMON_CPU)
# libconfig has another name in each release of Debian. Its archive is linked in, where there is one, so that a package
# of Debian 12 can be installed on 13.
CONTROL_COMMON_CONFIG  := $(or $(if $(SANITIZE),,$(filter /%,$(shell $(CC) -print-file-name=libconfig.a))),-lconfig)
CONTROL_COMMON_LIBS    := -luv $(CONTROL_COMMON_CONFIG) -lssl -lcrypto -ltirpc

$(CONTROL_COMMON_GENERATED)/control_prot.x: control-managers/common/control_prot.x
	@mkdir -p $(@D)
	cp $< $@
CONTROL_COMMON_RPCGEN = cd $(@D) && rm -f $(@F) && rpcgen -C -M -i 0 $(1) -o $(@F) control_prot.x || \
                        { rm -f $(@F); exit 1; }
$(CONTROL_COMMON_GENERATED)/control_prot.h: $(CONTROL_COMMON_GENERATED)/control_prot.x
	$(call CONTROL_COMMON_RPCGEN,-h)
$(CONTROL_COMMON_GENERATED)/control_prot_xdr.c: $(CONTROL_COMMON_GENERATED)/control_prot.x
	$(call CONTROL_COMMON_RPCGEN,-c)
$(CONTROL_COMMON_GENERATED)/control_procedures.h: control-managers/common/control_prot.x \
    control-managers/common/procedures.awk
	@mkdir -p $(@D)
	awk -f control-managers/common/procedures.awk $< > $@
$(CONTROL_COMMON_GENERATED)/%.o: $(CONTROL_COMMON_GENERATED)/%.c $(CONTROL_COMMON_GENERATED)/control_prot.h
	$(CC) $(ALL_CFLAGS) -w -Dxdr_string=protocol_xdr_string -I$(CONTROL_COMMON_GENERATED) -MMD -MP -c $< -o $@

$(CONTROL_COMMON_OBJECTS): | $(CONTROL_COMMON_HEADERS)
# The database's two implementations.
-include control-managers/common/db.mk
