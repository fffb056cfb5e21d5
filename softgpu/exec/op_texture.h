/* op_texture.h: handles of textures, samplers and surfaces in instructions, and the table of op_texture_query.c. */
#ifndef SOFTGPU_EXEC_OP_TEXTURE_H
#define SOFTGPU_EXEC_OP_TEXTURE_H

#include "softgpu/exec/decode.h"
#include "softgpu/texture.h"

/* The object of a lane; the same handle as last time is not looked up again within the instruction. */
struct texture_object {
    uint64_t handle;
    struct sg_texture t;
    bool known;
};

/* Whatever has the lane's handle, in that row. False: nothing has it. */
bool texture_look_up(const struct exec_warp *, exec_source row, unsigned lane, struct texture_object *);
/* The texture, or the surface, whose handle is in the instruction's first source. False: the lane has faulted. */
bool texture_find(struct exec_warp *, const struct exec_insn *, unsigned lane, bool surface, struct texture_object *);

/* A register holds a handle, or the address of a reference; a name stands for that address. sampler: a sampler is
   wanted, else a texture or a surface. */
int decode_texture_handle(struct exec_decoder *, const struct ptx_operand *, bool sampler, exec_source *);

extern const struct decode_entry decode_texture_query_table[];

#endif
