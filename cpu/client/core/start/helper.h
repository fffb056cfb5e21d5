/* helper.h: the thread of each session that listens to its server (helper.c); what others ask of it: wire/notify.h. */
#ifndef FLYT_CLIENT_CORE_HELPER_H
#define FLYT_CLIENT_CORE_HELPER_H

struct client_session;
/* At attach. A result code. */
int helper_start(struct client_session *);

#endif
