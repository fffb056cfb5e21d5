# cpu/common: logging, fat binaries, ids, hashing, time. No CUDA, no RPC.
CPU_COMMON_OBJECTS := $(call objects,$(addprefix cpu/common/,log.c fatbin.c ids.c hash.c clock.c))
# What a program that uses them links; CPU_COMMON_ARCHIVE is not made: objects are few.
CPU_COMMON_LIBS    := -lzstd -llz4 -lb2
