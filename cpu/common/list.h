/*
 * list.h: an intrusive list with two ends. Every operation takes O(1) steps and no memory.
 *
 * The caller embeds a `struct list` for every list that an object may be in, and protects the list. Zero bytes are an
 * empty list, and a member of none.
 */
#ifndef FLYT_COMMON_LIST_H
#define FLYT_COMMON_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list { struct list *next, *previous; };            /* a list's head, and its members */

static inline void list_insert_behind(struct list *place, struct list *member)
{
    member->previous = place;
    member->next = place->next;
    place->next->previous = member;
    place->next = member;
}

static inline void list_prepare(struct list *head)
{
    if (!head->next)
        head->next = head->previous = head;
}

static inline void list_append(struct list *head, struct list *member)
{
    list_prepare(head);
    list_insert_behind(head->previous, member);
}

static inline void list_prepend(struct list *head, struct list *member)
{
    list_prepare(head);
    list_insert_behind(head, member);
}

/* Is it a member of a list? */
static inline bool list_linked(const struct list *member) { return member->next != NULL; }

/* Nothing happens when it is in none. */
static inline void list_remove(struct list *member)
{
    if (!member->next)
        return;
    member->next->previous = member->previous;
    member->previous->next = member->next;
    member->next = member->previous = NULL;
}

/* NULL: there is none. */
static inline struct list *list_first(const struct list *head) { return head->next == head ? NULL : head->next; }
static inline struct list *list_next(const struct list *head, const struct list *member)
{
    return member->next == head ? NULL : member->next;
}

/* The object that embeds it as `member`; NULL for NULL. */
#define LIST_OBJECT(link, type, member) ((type *)list_object(link, offsetof(type, member)))
static inline void *list_object(struct list *link, size_t offset) { return link ? (char *)link - offset : NULL; }

#endif
