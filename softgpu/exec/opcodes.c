/* opcodes.c: which decode function an opcode has: the tables of all op_*.c files. Opcodes in none of them are
   arithmetic. */
#include "softgpu/exec/decode.h"
#include "softgpu/exec/op_texture.h"

#include <string.h>

decode_function *decode_find(const char *opcode)
{
    static const struct decode_entry *const tables[] = {
        decode_data,        decode_memory_table,    decode_control, decode_warp,
        decode_barrier,     decode_atomic,          decode_matrix,  decode_mbarrier_table,
        decode_copy,        decode_texture_table,   decode_tile,    decode_cancel,
        decode_wgmma_table, decode_tensormap_table, decode_absent,  decode_texture_query_table
    };
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct decode_entry *e = tables[t]; e->opcode; e++)
            if (!strcmp(e->opcode, opcode))
                return e->decode;
    return NULL;
}
