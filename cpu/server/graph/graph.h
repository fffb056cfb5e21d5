/*
 * graph.h: lists of calls that the server keeps, and serves at one message (graph.c).
 */
#ifndef FLYT_SERVER_GRAPH_H
#define FLYT_SERVER_GRAPH_H

#include "cpu/server/session.h"

void graphs_stop(struct session *);

#endif
