/*
 * fake.h: a small GPU server in a thread of the test, on a unix socket, whose misbehaviour can be scripted.
 *
 * It obeys the protocol: numbers, heads, events; streams run beside each other, each in order. Device memory is
 * the pieces that were mapped. It knows three kernels: "fill" (address u64, count u32, value u32; writes u32s),
 * "hold" (no parameters: runs until fake_release), "fault" (ends with 700, which stays).
 */
#ifndef TESTS_CORE_FAKE_H
#define TESTS_CORE_FAKE_H

#include <stdbool.h>
#include <stdint.h>

struct fake_options {
    unsigned    major;                /* 0: the right one */
    const char *refusal;
    bool        silent;               /* accepts, says nothing */
    uint32_t    silent_from;          /* procedure at whose first call it falls silent */
    uint32_t    close_at;             /* procedure at whose first call it closes the connection */
    unsigned    cuts;                 /* so many connections are closed at once */
    uint32_t    garbage_at;           /* procedure that it answers with an undecodable reply */
    int         bad_windows;          /* so many offers lie where the process already is */
    bool        no_windows;           /* it knows no other place, and takes the one that the client names */
    int         devices;              /* 0: 2 */
    uint64_t    memory;               /* per device; 0: 1 GiB */
    const char *print;                /* text printed by every "fill" */
    bool lacks_images;                /* has no image that is announced; else: lacks only the first */
    int refuses_modules;              /* with this code; 0: it takes them */
    bool grants;                      /* what HELLO wishes for */
    bool room;                        /* says that there is room for a context */
    int refuses_contexts;             /* the next so many calls that make one, with 2 */
    bool recalls_at_end;              /* a context's end is answered when the client has answered a recall */
    bool software;                    /* its devices are named as the software GPU's */
    unsigned lives;                   /* so often it begins anew behind a connection that was lost */
    struct {                          /* of the last life: it lies */
        bool progress;                /* about a stream that nobody has made, in each answer */
        bool due;                     /* that a host function is due that nobody has given it */
        bool no_progress;             /* it says of no stream how far it has come */
        uint32_t latched_at;          /* an error comes with each answer to this procedure */
        const char *print;            /* instead of `print` */
        uint32_t mute_at;             /* it answers no call of this procedure, and beats from then on */
    } last;
    bool        shared;               /* goes on through shared memory if the client wants to */
};

extern struct fake_options fake_options;
extern _Atomic uint64_t fake_calls[256];        /* received, per procedure */
extern _Atomic uint64_t fake_told;              /* the capabilities of the last HELLO */
extern _Atomic uint64_t fake_mapped[8];         /* bytes, per device */
extern _Atomic unsigned fake_recalled;          /* number of the last recall that was answered; they count from 1 */
extern _Atomic uint64_t fake_idle;              /* what that answer said */

void fake_start(void);                          /* listens, in $TEST_FOLDER, and sets FLYT_SERVER; once a process */
void fake_release(void);                        /* ends every "hold", also future ones */
void fake_cut(void);                            /* closes the connection now */
void fake_recall(uint64_t bytes);
void fake_publish(uint32_t stream, uint64_t done);      /* in shared memory, true or not */
void fake_say(const char *text);                /* an EVENTS text */
void fake_latch(int code);                      /* what the next reply's head says */
bool fake_peek(uint64_t address, void *to, uint64_t size);      /* device memory, behind the client's back */

#endif
