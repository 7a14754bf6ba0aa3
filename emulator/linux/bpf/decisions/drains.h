/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Drains: round trips in which a connection keeps little in flight, so that it sees the path empty, as in the
 * simulator (emulator/packets/transports/searched/drains.py, which says why). It does not use the kernel, so that a test can
 * compile it for user space.
 */
#ifndef SYSGYM_DRAINS_H
#define SYSGYM_DRAINS_H

#define DRAIN_AFTER 50 /* round trips without a short queue */
#define DRAIN_FOR 2 /* round trips */
#define DRAIN_SHARE_SHIFT 16
#define DRAIN_SHARE 6554 /* of the window that is in flight meanwhile, in 2^-16: a tenth */
#define SHORT_QUEUES_A_PACKET 4 /* a short queue is at most a quarter of a packet */
#define SHORTER_PERCENT 97 /* a drain goes on if it makes the least round trip shorter than this */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* What a connection remembers of its drains; times are since the machine's start. */
struct drains {
	unsigned long long short_at_us; /* when the queue was last short */
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

ALWAYS_INLINE void drains_start(struct drains *drains, unsigned long long now_us)
{
	drains->short_at_us = now_us;
	drains->end_us = 0;
	drains->just_drained = 0;
}

ALWAYS_INLINE int sees_short_queue(const struct round_trip *seen)
{
	unsigned long long short_us = seen->least_us + seen->line_ns / (SHORT_QUEUES_A_PACKET * 1000);

	return seen->rtt_us && seen->rtt_us <= short_us;
}

ALWAYS_INLINE void begin_drain(struct drains *drains, const struct round_trip *seen)
{
	drains->least_before_us = seen->least_us;
	drains->end_us = seen->now_us + DRAIN_FOR * seen->present_us;
}

/* End the drain; go on if a shorter round trip was seen in it. */
ALWAYS_INLINE void end_drain(struct drains *drains, const struct round_trip *seen)
{
	if (100 * seen->least_us < SHORTER_PERCENT * drains->least_before_us) {
		begin_drain(drains, seen);
	} else {
		drains_start(drains, seen->now_us);
		drains->just_drained = 1;
	}
}

/* Begin a drain where it is due; a connection that was idle for as long counts anew. */
ALWAYS_INLINE void await_drain(struct drains *drains, const struct round_trip *seen)
{
	unsigned long long since_us = seen->now_us - drains->short_at_us;

	if (sees_short_queue(seen) || since_us > 2 * DRAIN_AFTER * seen->present_us)
		drains->short_at_us = seen->now_us;
	else if (since_us > DRAIN_AFTER * seen->present_us)
		begin_drain(drains, seen);
}

/* Begin and end drains; return whether the connection drains from this ACK on. */
ALWAYS_INLINE int is_draining(struct drains *drains, const struct round_trip *seen)
{
	if (!drains->end_us)
		await_drain(drains, seen);
	else if (seen->now_us >= drains->end_us)
		end_drain(drains, seen);
	return drains->end_us != 0;
}

#endif
