# cpu/checkpoint: the file of a checkpoint, and of a program that is suspended. No driver, no connections.
CPU_CHECKPOINT_OBJECTS := $(call objects,$(filter-out %/cipher.c,$(wildcard cpu/checkpoint/*.c)))
# With cpu/code/hash.c.
CPU_CHECKPOINT_LIBS    := -lzstd -lb2
# OpenSSL's part: with -lcrypto. The client's library does without (cipher.h).
CPU_CHECKPOINT_CIPHER  := $(call objects,cpu/checkpoint/cipher.c)
