# cpu/checkpoint: the file of a checkpoint, and of a program that is suspended. No driver, no connections.
CPU_CHECKPOINT_OBJECTS := $(call objects,cpu/checkpoint/frame.c cpu/checkpoint/reader.c cpu/checkpoint/writer.c)
# With cpu/code/hash.c.
CPU_CHECKPOINT_LIBS    := -lzstd -lb2
