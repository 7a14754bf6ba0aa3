/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Drains: round trips in which a connection keeps little in flight, so that it sees the path empty, as in the
 * simulator (emulator/packets/transports/searched/drains.py, which says why). It does not use the kernel, so that a
 * test can compile it for user space.
 */
#ifndef SYSGYM_DRAINS_H
#define SYSGYM_DRAINS_H

#include "fixed_point.h"

#define DRAIN_AFTER 50 /* round trips without a short queue */
#define DRAIN_FOR 2 /* round trips */
#define DRAIN_DIVISOR 10 /* a tenth of the window is in flight meanwhile */
#define DRAIN_PACKETS (FIXED_ONE / 2) /* or so much, or all of a smaller one */
#define SHORT_QUEUE_DIVISOR 4 /* a short queue is at most a quarter of a packet */
#define SHORTER_PERCENT 97 /* a drain goes on if the least round trip falls below this share of what it was */
#define PAUSE 25 /* round trips without an ACK */

/* What a connection remembers of its drains; times are since the machine's start. */
struct drains {
	unsigned long long short_at_us; /* when the queue was last short */
	unsigned long long acked_at_us; /* when the last ACK came */
	unsigned long long end_us; /* 0: no drain is under way */
	unsigned long long least_before_us; /* least round trip before the drain */
	unsigned long long just_drained; /* 1 in the round after a drain, whose queue is the drain's */
};

/* What an ACK tells; a round trip of 0 is none. */
struct round_trip {
	unsigned long long now_us;
	unsigned long long rtt_us;
	unsigned long long least_us; /* of the connection so far */
	unsigned long long present_us; /* smoothed */
	unsigned long long line_ns; /* time of a packet on the sender's line */
};

/* Count round trips without a short queue from now on; a drain that is under way ends. */
FIXED_POINT void drains_count_from(struct drains *drains, unsigned long long now_us)
{
	drains->short_at_us = drains->acked_at_us = now_us;
	drains->end_us = 0;
}

FIXED_POINT void drains_start(struct drains *drains, unsigned long long now_us)
{
	drains_count_from(drains, now_us);
	drains->just_drained = 0;
}

FIXED_POINT int sees_short_queue(const struct round_trip *seen)
{
	unsigned long long short_us = seen->least_us + seen->line_ns / (SHORT_QUEUE_DIVISOR * 1000);

	return seen->rtt_us && seen->rtt_us <= short_us;
}

FIXED_POINT void begin_drain(struct drains *drains, const struct round_trip *seen)
{
	drains->least_before_us = seen->least_us;
	drains->end_us = seen->now_us + DRAIN_FOR * seen->present_us;
}

/* End the drain; go on if a shorter round trip was seen in it. */
FIXED_POINT void end_drain(struct drains *drains, const struct round_trip *seen)
{
	if (100 * seen->least_us < SHORTER_PERCENT * drains->least_before_us) {
		begin_drain(drains, seen);
	} else {
		drains_count_from(drains, seen->now_us);
		drains->just_drained = 1;
	}
}

/* Begin a drain where it is due; after a pause, count anew. */
FIXED_POINT void await_drain(struct drains *drains, const struct round_trip *seen)
{
	int paused = seen->now_us - drains->acked_at_us > PAUSE * seen->present_us;

	drains->acked_at_us = seen->now_us;
	if (paused || sees_short_queue(seen))
		drains->short_at_us = seen->now_us;
	else if (seen->now_us - drains->short_at_us > DRAIN_AFTER * seen->present_us)
		begin_drain(drains, seen);
}

/* Begin and end drains; return whether the connection drains from this ACK on. */
FIXED_POINT int is_draining(struct drains *drains, const struct round_trip *seen)
{
	if (!drains->end_us)
		await_drain(drains, seen);
	else if (seen->now_us >= drains->end_us)
		end_drain(drains, seen);
	return drains->end_us != 0;
}

/* The window of a drain, in 2^-16 packets. */
FIXED_POINT unsigned int drained_window(unsigned int packets)
{
	unsigned int least = packets < DRAIN_PACKETS ? packets : DRAIN_PACKETS;
	unsigned int share = packets / DRAIN_DIVISOR;

	return share > least ? share : least;
}

#endif
