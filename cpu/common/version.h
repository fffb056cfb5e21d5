/*
 * version.h: the version of Flyt, the only place that holds it. Programs include it; the Makefile, make-deb, install
 * and bench.py read the line below, so its form is fixed.
 *
 * 1.0 and not 0.1 (both were in use): the Debian package has been 1.0 from the beginning, and dpkg would take 0.1 for a
 * downgrade.
 */
#ifndef FLYT_COMMON_VERSION_H
#define FLYT_COMMON_VERSION_H

#define FLYT_VERSION "1.0"

#endif
