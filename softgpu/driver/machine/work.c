/* work.c: operations that have started and are done by a thread of the driver: copies and memsets, and host
   functions. */
#include "softgpu/driver/machine/machine.h"
#include "cpu/common/lock.h"

struct work_list { struct sgd_op *head, **tail; pthread_cond_t ready; };

static struct work_list copies, callbacks;

void sgd_work_start(void)
{
    struct work_list *lists[] = { &copies, &callbacks };
    for (size_t i = 0; i < 2; i++) {
        lists[i]->tail = &lists[i]->head;
        sgd_cond_init(&lists[i]->ready);
    }
}

void sgd_work_put(struct sgd_op *op)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct work_list *list = op->kind == SGD_OP_HOST ? &callbacks : &copies;
    op->work_next = NULL;
    *list->tail = op;
    list->tail = &op->work_next;
    pthread_cond_signal(&list->ready);
}

struct sgd_op *sgd_work_take(bool host_functions)
{
    FLYT_ASSERT_HELD(&sgd_mutex);
    struct work_list *list = host_functions ? &callbacks : &copies;
    while (!list->head)
        sgd_wait_on(&list->ready, NULL);
    struct sgd_op *op = list->head;
    list->head = op->work_next;
    if (!list->head)
        list->tail = &list->head;
    return op;
}
