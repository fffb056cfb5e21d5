/*
 * tenant.h: what all programs of a tenant hold of device memory together, its limit, and how unused credit of one
 * becomes memory of another; see tenant.c. Without a usage file (local:) these let everything pass.
 */
#ifndef FLYT_SERVER_TENANT_H
#define FLYT_SERVER_TENANT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- for the listener ---- */

/* Before the first worker: an empty usage file, which workers find by the environment: at $FLYT_TENANT_LEDGER, else in
   `directory` (NULL: there is none, and no usage file then). */
void tenant_reset(const char *directory);
void tenant_forget(pid_t worker);                 /* it has ended */

/* ---- for a worker ---- */

/* Before its first session. -1: there is a limit and its usage file cannot be used: nothing may be served, and `why`
   says why not. */
int  tenant_open(char *why, size_t size);

/* An error after which the program cannot use CUDA any more goes into this file, for the node manager. It takes fd
   over. */
void tenant_fault_file(int fd);
void tenant_fault(int code);

/* Credit: what MAP makes, part of which the client may hold unused. Fixed: all else. */
enum tenant_kind { TENANT_CREDIT, TENANT_FIXED };
/* Before memory is made, or, where its size shows only then, before it is given to anybody. False: the tenant has not
   that much left of this device (its index). */
bool tenant_charge(enum tenant_kind, unsigned device, uint64_t bytes);
void tenant_release(enum tenant_kind, unsigned device, uint64_t bytes);
/* Memory that has been charged becomes memory that several programs may hold; it has this number from now on, and
   counts once, until the last worker that holds it says tenant_share_end or ends. False: the books have no more room;
   nothing has changed. */
bool tenant_share(enum tenant_kind, unsigned device, uint64_t bytes, uint64_t number);
/* This worker holds it, too. False: no room, or nobody held it any more and the tenant has not that much left. */
bool tenant_share_hold(uint64_t number, unsigned device, uint64_t bytes);
void tenant_share_end(uint64_t number);
/* Charges, and asks the other programs, and our own client if `own`, for what they hold unused, and waits for them
   up to TENANT_PATIENCE_NS. Our own answers only while nobody holds session.lock. */
bool tenant_charge_waiting(enum tenant_kind, unsigned device, uint64_t bytes, bool own);
/* There will be plenty left besides: credit may be given ahead of need. */
bool tenant_roomy(unsigned device, uint64_t bytes);

/* The limit of each device in bytes, UINT64_MAX: none. */
uint64_t tenant_limit(void);
/* What is left of it on a device, where what other programs hold unused, as far as is known, counts as left; and that,
   too (0 unless there is a limit, or `share`: they share the device's memory). */
uint64_t tenant_left(unsigned device, bool share, uint64_t *idle);

/* ---- what the tenant's programs use (usage.c) ---- */

/* Whose session this worker serves. */
void tenant_program(uint32_t pid, const char *executable);
/* Of a device in the order of HELLO, the bytes that the session takes now. */
void tenant_device(unsigned device, uint64_t bytes);
/* A look at it: it has work under way, or not. TENANT_LOOKS of them are remembered. */
enum { TENANT_LOOKS = 8, TENANT_DEVICES = 8, TENANT_NAME = 172 };
void tenant_look(bool busy);
struct tenant_usage { uint32_t pid, busy; uint64_t bytes[TENANT_DEVICES]; char executable[TENANT_NAME]; };
/* Of at most so many programs; how many there are. -1: no usage file is kept. */
int  tenant_usage(struct tenant_usage *, unsigned most);

/* ---- recall ---- */

#define TENANT_PATIENCE_NS (500 * UINT64_C(1000000))
/* A try of something that may lack memory:
     struct tenant_try t = tenant_try_begin(device, bytes, …);
     do r = …; while (r == CUDA_ERROR_OUT_OF_MEMORY && tenant_try_again(&t)); */
struct tenant_try { uint64_t bytes, since, wait_ns; uint32_t seen, device; bool own, asked, last; };
struct tenant_try tenant_try_begin(unsigned device, uint64_t bytes, uint64_t wait_ns, bool own);
bool tenant_try_again(struct tenant_try *);
/* Other programs hold credit. */
bool tenant_shared(void);
/* Has every other program say what it holds unused. */
void tenant_survey(uint64_t wait_ns);

/* The function is called, in a thread of ours, when others ask this worker for unused credit; it is answered by
   tenant_answer with that number. Until then questions are answered at once: there is none. */
int  tenant_listen(void (*recall)(void *context, uint32_t number, uint64_t bytes), void *context);
void tenant_answer(uint32_t number, uint64_t idle);

#endif
