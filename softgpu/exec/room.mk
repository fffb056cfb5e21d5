# The executor of the software GPU: an object list that softgpu's library and the tests link.
SOFTGPU_EXEC_SOURCES := $(addprefix softgpu/exec/, \
                          address.c block.c blocks.c buffer.c builtin.c call.c callbacks.c check.c cluster.c \
                          constants.c decode.c decode_operand.c device_runtime.c emit.c engine.c exit.c family.c \
                          fault.c flow.c \
                          frame.c functions.c handlers.c heap.c kernel.c locals.c matrix.c op_absent.c op_alu.c \
                          op_atomic.c op_barrier.c op_cancel.c op_check.c op_control.c op_copy.c op_data.c op_matrix.c \
                          op_mbarrier.c op_memory.c op_special.c op_tensor.c op_tensormap.c op_texture.c \
                          op_texture_query.c op_tile.c op_warp.c op_wgmma.c opcodes.c order.c place.c pointer.c jit.c \
                          print.c reach.c registers.c shadow.c texture.c warp.c describe.c eager.c needs.c pressure.c \
                          parted.c phases.c rounds.c span.c steps.c straighten.c values.c watch.c whole.c)
# rows.c, products.c, fused.c and straight.c need softgpu_clone_objects of softgpu/alu/room.mk, which is read before
# this file.
SOFTGPU_EXEC_OBJECTS := $(call objects,$(SOFTGPU_EXEC_SOURCES)) \
                        $(call softgpu_clone_objects,$(addprefix softgpu/exec/,rows.c products.c fused.c straight.c))
# Handlers are hot: what -O3 brings is for plain builds.
$(foreach file,$(SOFTGPU_EXEC_SOURCES),$(eval CFLAGS_$(subst /,_,$(basename $(file))) := $(if $(CHECKED),,-O3)))

.PHONY: softgpu-exec
softgpu-exec: $(SOFTGPU_EXEC_OBJECTS)
