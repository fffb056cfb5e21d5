/* pressure.c: how many registers are alive at one place, with the instructions in the order of the text. */
#include "softgpu/exec/pressure.h"

#include <stdlib.h>

/* The most in block b. alive[]: per register, all false before and after. */
static unsigned most_in_block(const struct exec_values *v, uint32_t b, bool *alive)
{
    const uint64_t *out = v->out + (size_t)b * v->words;
    unsigned now = 0, most;
    for (uint32_t c = 0; c < v->crossing_count; c++)
        if (out[c / 64] >> (c % 64) & 1) {
            alive[v->crossing[c]] = true;
            now += v->cost[v->crossing[c]];
        }
    most = now;
    for (uint32_t i = v->flow.first[b + 1]; i-- > v->flow.first[b];) {
        unsigned unused = 0;
        for (uint32_t k = v->write_at[i]; k < v->write_at[i + 1]; k++) {
            uint32_t r = v->writes[k];
            if (alive[r])
                now -= v->cost[r];
            unused += v->cost[r];
            alive[r] = false;
        }
        unsigned scratch = v->left_out[i] ? 0 : exec_values_scratch(&v->f->instructions[i]);
        most = now + unused + scratch > most ? now + unused + scratch : most;
        for (uint32_t k = v->read_at[i]; k < v->read_at[i + 1]; k++) {
            uint32_t r = v->reads[k];
            now += alive[r] ? 0 : v->cost[r];
            alive[r] = true;
        }
        most = now > most ? now : most;
    }
    const uint64_t *in = v->in + (size_t)b * v->words; /* what is alive now */
    for (uint32_t c = 0; c < v->crossing_count; c++)
        if (in[c / 64] >> (c % 64) & 1)
            alive[v->crossing[c]] = false;
    return most;
}

unsigned exec_pressure(const struct exec_values *v)
{
    bool *alive = calloc(v->f->register_count + 1u, sizeof *alive);
    unsigned most = 0;
    for (uint32_t b = 0; alive && b < v->flow.blocks; b++) {
        unsigned here = most_in_block(v, b, alive);
        most = here > most ? here : most;
    }
    free(alive);
    return most;
}
