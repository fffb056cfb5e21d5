# The PTX reader: an object list that softgpu's library and the tests link.
SOFTGPU_PTX_OBJECTS := $(call objects,$(addprefix softgpu/ptx/, \
                         arena.c budget.c declare.c expression.c function.c initialiser.c instruction.c later.c \
                         lexer.c link.c module.c names.c opaque.c operand.c read.c reader.c scan.c types.c))
