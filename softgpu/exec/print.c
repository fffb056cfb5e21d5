/*
 * print.c: what kernels print until somebody flushes it: a bounded buffer of whole calls of printf. When it is full
 * the oldest go, as CUDA says ("Formatted Output", limitations).
 */
#include "softgpu/exec/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct print_record {
    struct print_record *next;
    size_t size;
    char text[];
};
struct sg_print {
    pthread_mutex_t lock;
    struct print_record *first, **end;
    size_t held, limit;
    pthread_mutex_t writing;          /* two flushes at once keep the order */
};

sg_print *sg_print_create(void)
{
    sg_print *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->writing, NULL);
    p->end = &p->first;
    p->limit = 1 << 20;
    return p;
}

void sg_print_destroy(sg_print *p)
{
    if (!p)
        return;
    while (p->first) {
        struct print_record *r = p->first;
        p->first = r->next;
        free(r);
    }
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->writing);
    free(p);
}

void sg_print_resize(sg_print *p, size_t bytes)
{
    pthread_mutex_lock(&p->lock);
    p->limit = bytes;
    pthread_mutex_unlock(&p->lock);
}

void exec_print_add(sg_print *p, const char *text, size_t size)
{
    if (!p)
        return;
    struct print_record *r = malloc(sizeof *r + size);
    if (!r)
        return;
    r->next = NULL;
    r->size = size;
    memcpy(r->text, text, size);
    struct print_record *old = NULL;
    pthread_mutex_lock(&p->lock);
    *p->end = r;
    p->end = &r->next;
    p->held += sizeof *r + size;
    while (p->held > p->limit && p->first != r) {
        struct print_record *o = p->first;
        p->first = o->next;
        p->held -= sizeof *o + o->size;
        o->next = old;
        old = o;
    }
    pthread_mutex_unlock(&p->lock);
    while (old) {
        struct print_record *o = old;
        old = o->next;
        free(o);
    }
}

void sg_print_flush(sg_print *p)
{
    pthread_mutex_lock(&p->writing);
    pthread_mutex_lock(&p->lock);
    struct print_record *r = p->first;
    p->first = NULL;
    p->end = &p->first;
    p->held = 0;
    pthread_mutex_unlock(&p->lock);
    bool any = r != NULL;
    while (r) {
        struct print_record *next = r->next;
        fwrite(r->text, 1, r->size, stdout);
        free(r);
        r = next;
    }
    if (any)
        fflush(stdout);
    pthread_mutex_unlock(&p->writing);
}
