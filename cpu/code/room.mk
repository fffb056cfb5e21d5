# cpu/code: fat binaries, hashes of code images, layouts of kernel parameters. No driver, no connections.
CPU_CODE_OBJECTS := $(call objects,$(addprefix cpu/code/,bounded.c fatbin.c hash.c kernels.c object.c))
CPU_CODE_LIBS    := -lzstd -llz4 -lb2
# Layouts are read from PTX too. Expanded late: softgpu/ptx is read after this room.
CPU_CODE_LAYOUT_OBJECTS = $(call objects,cpu/code/layout.c) $(SOFTGPU_PTX_OBJECTS)
