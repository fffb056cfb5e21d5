/* recover_report.h: the client manager hears whether the program is protected against the loss of its GPU server. */
#ifndef FLYT_CLIENT_CORE_RECOVER_REPORT_H
#define FLYT_CLIENT_CORE_RECOVER_REPORT_H

/* The helper asks this now and then. */
void recover_report(void);

#endif
