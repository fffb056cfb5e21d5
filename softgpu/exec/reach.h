/* reach.h: what a kernel may run and use, and how deep its calls are; see reach.c. */
#ifndef SOFTGPU_EXEC_REACH_H
#define SOFTGPU_EXEC_REACH_H

#include "softgpu/exec/exec.h"

struct exec_reach {
    bool *function;       /* per function of the module: may run */
    bool *variable;       /* per variable of the module: may be used */
    bool calls_pointers;  /* it calls functions by pointer */
    bool takes_addresses; /* it uses addresses of functions, or variables that begin with some */
    bool barriers, cluster_barriers;
    unsigned uses; /* SOFTGPU_USES_... */
};

/* The deepest chain of calls that begins with a function: bytes of local memory per lane, those of the function itself
   included, and bytes of stack of the functions that are called. recursive: there may be more than that. */
struct exec_depth {
    uint32_t local, stack;
    bool recursive;
    uint8_t state; /* reach.c's own */
};

/* What functions[index], an entry, may reach: a CUresult. In both cases exec_reach_free frees what there is. The caller
   has the program's lock. */
int exec_reach_entry(sg_program *, uint32_t index, struct exec_reach *, char *log, size_t log_size);
void exec_reach_free(struct exec_reach *);
/* What a pointer may lead to: every function whose address is taken, and what these reach. NULL: log says why not. The
   caller has the program's lock; what it returns does not change, and lives as long as the program. */
const struct exec_reach *exec_reach_pointed(sg_program *, char *log, size_t log_size);
/* Of a function that was reached. The same lock. false: no host memory. */
bool exec_depth_of(sg_program *, uint32_t index, struct exec_depth *);

#endif
