/*
 * layout.h: which kernels a code image has and how their parameters are laid out, without asking a driver.
 * For the null device, which has no other source, for drivers without cuFuncGetParamInfo (before 12.4), and for what
 * NVIDIA's driver does not say of a kernel: the blocks and clusters that it was compiled for.
 */
#ifndef FLYT_CODE_LAYOUT_H
#define FLYT_CODE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct layout_param { uint32_t offset, size; };

struct layout {                       /* of one kernel */
    struct layout_param *params;
    uint32_t count;
    uint32_t bytes;                   /* of the whole parameter block */
    uint32_t required[3];             /* the one block that it can be launched with (.reqntid); 0: any */
    uint32_t cluster_most;            /* blocks of its largest cluster (.maxclusterrank); 0: it does not say */
    bool grid_of_clusters;            /* a launch's grid counts clusters (.blocksareclusters) */
};

typedef struct layout_image layout_image;

/* image: what cuModuleLoadData takes (wrapper, container, NUL-terminated PTX, cubin), known to be whole. Its bytes
   are not needed afterwards. 0 and *out, or a CUresult (200 not an image, 209 no code in it that can be read,
   218 PTX that cannot be read, 2 no memory) and the reason in log. */
extern size_t layout_text_most;       /* bytes of all PTX texts of an image: a compressed one can claim any size */
int layout_open(const void *image, layout_image **out, char *log, size_t log_size);
void layout_close(layout_image *);
/* Whether the code of an image, with nothing compressed, has at most `most` bytes: layout_open reads it all. */
bool layout_is_small(const void *image, size_t most);

/* 0, or -1: no such kernel. *out points into the image's memory. */
int layout_find(const layout_image *, const char *kernel, struct layout *out);
/* Size of a module variable, 0: there is none. */
uint64_t layout_variable_size(const layout_image *, const char *name);
/* The names of the module variables, one by one from 0; NULL: there are no more. They live as long as the layout. */
const char *layout_variable_name(const layout_image *, size_t index);

#endif
