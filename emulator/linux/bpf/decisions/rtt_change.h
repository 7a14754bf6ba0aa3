/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Average change of the round trip from a sample to the next, as in the simulator
 * (emulator/packets/transports/searched/rounds.py). It does not use the kernel, so that a test can compile it for
 * user space.
 */
#ifndef SYSGYM_RTT_CHANGE_H
#define SYSGYM_RTT_CHANGE_H

#define RTT_CHANGE_SHIFT 4 /* a change counts a sixteenth */

/* The average after a sample; the first one, with 0 before, is no change. */
static inline __attribute__((always_inline)) unsigned long long
rtt_change_after(unsigned long long average_ns, unsigned long long before_us, unsigned long long rtt_us)
{
	unsigned long long change_us = rtt_us > before_us ? rtt_us - before_us : before_us - rtt_us;
	long long further_ns = (long long)(change_us * 1000) - (long long)average_ns;

	return before_us ? average_ns + (further_ns >> RTT_CHANGE_SHIFT) : average_ns;
}

#endif
