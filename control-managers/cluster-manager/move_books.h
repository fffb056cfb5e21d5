/*
 * move_books.h: what a move counts for at its two servers while it is under way, and which server its program has
 * afterwards.
 */
#ifndef FLYT_CLUSTER_MOVE_BOOKS_H
#define FLYT_CLUSTER_MOVE_BOOKS_H

#include "control-managers/cluster-manager/moving.h"

/* The names of the servers' nodes and GPUs, and of the VM, as far as the servers are known. */
void move_describe_ends(struct moved_program *);
/* It counts in `reserved` of its new server and in `leaving` of its old one, until move_let_go. Nothing happens where
   it does so already, or while its new server is not known: a move that was read from the DB. */
void move_hold(struct moved_program *);
/* Servers that nobody uses then are ended, and the queue is looked at. */
void move_let_go(struct moved_program *);
/* The program has no server from now on, and its share is free. from: the server that it leaves; 0: not known. This
   manager may have begun after the program left it. */
void move_suspend_program(struct program *, uint64_t from);
/* The move is done, and the program has the server that follows from it; or is lost, if that one has ended. */
void move_take_over(struct moved_program *);

#endif
