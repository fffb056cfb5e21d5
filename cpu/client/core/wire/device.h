/*
 * device.h: facts about devices (device.c).
 */
#ifndef FLYT_CLIENT_CORE_DEVICE_H
#define FLYT_CLIENT_CORE_DEVICE_H

#include "cpu/client/core/api_session.h"
#include "cpu/rpc/rpc.h"
#include "cpu/rpc/cpu_rpc_prot.h"

struct client_session;

struct client_device {
    struct client_session *session;
    int  wire;                        /* its number on the server */
    struct core_device public;
};
int  device_snapshot(void);                                 /* at attach */
const struct client_device *client_device_find(int device); /* NULL: no such */
int  device_count(void);
int device_attribute(int device, int attribute, int *value); /* core_device_attribute, also during the attach */
void device_rewire(const int *wires);                       /* their numbers, on the server to which calls go now */
/* Parses $CUDA_VISIBLE_DEVICES: writes at most `count` server numbers, in order, returns how many. */
int  device_visible(const char *text, const flyt_device *devices, int count, int *out);

#endif
