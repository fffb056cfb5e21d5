/*
 * layout.h: which kernels a code image has and how their parameters are laid out, without asking a driver.
 * For the null device, which has no other source, and for drivers without cuFuncGetParamInfo (before 12.4).
 */
#ifndef FLYT_CODE_LAYOUT_H
#define FLYT_CODE_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct layout_param { uint32_t offset, size; };

struct layout {                       /* of one kernel */
    struct layout_param *params;
    uint32_t count;
    uint32_t bytes;                   /* of the whole parameter block */
};

typedef struct layout_image layout_image;

/* image: what cuModuleLoadData takes (wrapper, container, NUL-terminated PTX, cubin), known to be whole. Its bytes
   are not needed afterwards. 0 and *out, or a CUresult (200 not an image, 209 no code in it that can be read,
   218 PTX that cannot be read, 2 no memory) and the reason in log. */
extern size_t layout_text_most;       /* bytes of all PTX texts of an image: a compressed one can claim any size */
int layout_open(const void *image, layout_image **out, char *log, size_t log_size);
void layout_close(layout_image *);

/* 0, or -1: no such kernel. *out points into the image's memory. */
int layout_find(const layout_image *, const char *kernel, struct layout *out);
/* Size of a module variable, 0: there is none. */
uint64_t layout_variable_size(const layout_image *, const char *name);
/* The names of the module variables, one by one from 0; NULL: there are no more. They live as long as the layout. */
const char *layout_variable_name(const layout_image *, size_t index);

#endif
