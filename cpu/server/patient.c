/*
 * patient.c: calls that wait for other programs of the tenant (tenant.h), each in a short-lived thread of its own, so that
 * they hold up no other call. Only worker processes have them, which end without waiting for their threads.
 */
#include <stdlib.h>

#include "cpu/server/session.h"

enum { PATIENT_MOST = 16 };

struct patient {
    struct session *session;
    struct call *call;
    void (*serve)(struct session *, struct call *);
};

static void *patient_main(void *context)
{
    struct patient *patient = context;
    patient->serve(patient->session, patient->call);
    atomic_fetch_sub(&patient->session->patient, 1);
    call_free(patient->call);
    free(patient);
    return NULL;
}

bool patient_serve(struct session *session, struct call *call, void (*serve)(struct session *, struct call *))
{
    struct patient *patient = session->disposable && atomic_load(&session->patient) < PATIENT_MOST ? malloc(sizeof *patient) : NULL;
    struct call *kept = patient ? call_keep(call) : NULL;
    pthread_t thread;
    if (kept) {
        *patient = (struct patient){ session, kept, serve };
        atomic_fetch_add(&session->patient, 1);
        if (pthread_create(&thread, NULL, patient_main, patient) == 0) {
            pthread_detach(thread);
            return true;
        }
        atomic_fetch_sub(&session->patient, 1);
        call->moved = false;
        free(kept);
    }
    free(patient);
    return false;
}
