# cpu/common: logging, fat binaries, ids, hashing, time. No CUDA, no connections.
# wire.c (the heads of ONC RPC messages) needs libtirpc and is named by the rooms that use it.
CPU_COMMON_OBJECTS := $(call objects,$(addprefix cpu/common/,clock.c driver_library.c driver_names.c env.c fatbin.c fd.c gaps.c \
                        hash.c ids.c log.c past_cache.c tree.c))
# Tickets and secrets of the control plane, for those who issue and those who check them; these need libcrypto.
CPU_COMMON_TICKET_OBJECTS := $(call objects,cpu/common/ticket.c cpu/common/secret.c)
# What a program that uses them links; CPU_COMMON_ARCHIVE is not made: objects are few.
CPU_COMMON_LIBS    := -lzstd -llz4 -lb2
