/* notify.h: systemd's notification protocol (sd_notify(3)), by hand. Without $NOTIFY_SOCKET these do nothing. */
#ifndef FLYT_CONTROL_NOTIFY_H
#define FLYT_CONTROL_NOTIFY_H

/* "READY=1", "STOPPING=1", "STATUS=…", "RELOADING=1" …; several separated by newlines. */
void notify_send(const char *state);

#endif
