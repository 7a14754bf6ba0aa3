/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Laws that decide once per round trip over a window with a fraction of a packet, in 2^-16. Below one packet, one
 * packet, or a few, are in flight at a time, and the pace is that of the window.
 *
 * Two things are the kernel's: it paces a connection from its tenth packet on, and a slower pace holds from the
 * packet after the next. Growth asks whether the window was the limit in the last window of data, where the
 * simulator asks at each ACK.
 */
#ifndef SYSGYM_ROUNDS_H
#define SYSGYM_ROUNDS_H

#include "decisions/fixed_point.h"
#include "window.h"

#define LEAST_PACKETS (FIXED_ONE / 100)
#define MOST_PACKETS (0xffffu << FIXED_SHIFT)
#define LEAST_SSTHRESH (2 * FIXED_ONE)
#define LONGEST_RTT_US (1u << 26)

/* Measurements of a round trip, or rather of a window of data. */
struct round {
	u32 end; /* the round is over when this is acknowledged */
	u32 delivered; /* tp->delivered at its beginning */
	u32 delivered_ce;
	u32 rtt_sum_us;
	u32 rtt_least_us;
	u16 rtt_samples;
	u8 lost;
	u8 timed_out; /* without a reduction yet */
};

INLINE void round_begin(struct round *round, struct tcp_sock *tp)
{
	round->end = tp->snd_nxt;
	round->delivered = tp->delivered;
	round->delivered_ce = tp->delivered_ce;
	round->rtt_sum_us = 0;
	round->rtt_samples = 0;
	round->rtt_least_us = 0;
	round->lost = 0;
}

/* Where the sum has no more room, what was added up so far counts half. */
INLINE void round_sample(struct round *round, const struct rate_sample *sample)
{
	u32 rtt_us = sample->rtt_us < LONGEST_RTT_US ? sample->rtt_us : LONGEST_RTT_US;

	if (sample->rtt_us <= 0)
		return;
	if (round->rtt_sum_us >> 31 || round->rtt_samples == 0xffff) {
		round->rtt_sum_us >>= 1;
		round->rtt_samples >>= 1;
	}
	round->rtt_sum_us += rtt_us;
	round->rtt_samples += 1;
	if (round->rtt_least_us == 0 || rtt_us < round->rtt_least_us)
		round->rtt_least_us = rtt_us;
}

INLINE bool round_is_over(struct round *round, struct tcp_sock *tp)
{
	return behind(round->end, tp->snd_una) && round->rtt_samples;
}

INLINE u32 round_marked(struct round *round, struct tcp_sock *tp)
{
	return tp->delivered_ce - round->delivered_ce;
}

INLINE u32 round_marked_share(struct round *round, struct tcp_sock *tp)
{
	u32 delivered = tp->delivered - round->delivered;

	return ((u64)smaller(round_marked(round, tp), delivered) << FIXED_SHIFT) / larger(delivered, 1);
}

INLINE u32 bounded(u64 packets)
{
	if (packets < LEAST_PACKETS)
		return LEAST_PACKETS;
	return packets < MOST_PACKETS ? packets : MOST_PACKETS;
}

/* The smoothed round trip, or that of the empty path if it is longer. */
INLINE u32 present_rtt_us(struct tcp_sock *tp)
{
	return larger(tp->srtt_us >> 3, tp->rtt_min.s[0].v);
}

/*
 * Tell the kernel the window, the threshold and the pace, in windows per round trip of so many us. So many packets
 * together are in flight at least; a smaller window is paced at its own rate.
 */
INLINE u32 set_window(struct window *window, struct sock *sk, u32 packets, u32 ssthresh, u32 pace, u32 together,
		       u64 rtt_us)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 bytes_a_round;

	packets = bounded(smaller(packets, smaller(tp->snd_cwnd_clamp, 0xffff) << FIXED_SHIFT));
	window->ssthresh = larger(ssthresh >> FIXED_SHIFT, MIN_CWND);
	tp->snd_ssthresh = window->ssthresh;
	window_set(window, tp, larger(packets >> FIXED_SHIFT, together));
	if (!tp->srtt_us || !rtt_us)
		return packets;
	if (packets < together << FIXED_SHIFT)
		pace = FIXED_ONE;
	bytes_a_round = ((u64)pace * packets >> 20) * tp->mss_cache >> 6; /* in 2^-6, so that products fit */
	window_pace_at(sk, bytes_a_round * 1000000 / rtt_us >> 6);
	return packets;
}

/* Whether the window limits the sender; one of less than so many packets together always does. */
INLINE bool limits_the_flow(struct tcp_sock *tp, u32 packets, bool slow_start, u32 together)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) || packets < together << FIXED_SHIFT ||
	       (slow_start && tp->snd_cwnd < 2 * tp->max_packets_out);
}

/* The window after an ACK: doubled per round trip in slow start, else larger by the growth per round trip. */
INLINE u32 grown(struct tcp_sock *tp, u32 packets, u32 ssthresh, u32 growth, u32 acked)
{
	bool slow_start = packets < ssthresh;
	u64 share;

	if (!limits_the_flow(tp, packets, slow_start, 1))
		return packets;
	if (slow_start)
		return bounded(packets + ((u64)smaller(acked, 2) << FIXED_SHIFT));
	share = ((u64)acked << (2 * FIXED_SHIFT)) / larger(packets, FIXED_ONE);
	if (share > FIXED_ONE)
		share = FIXED_ONE;
	return bounded(packets + (growth * share >> FIXED_SHIFT));
}

enum news { NO_NEWS, RECOVERS, BEGINS_TO_RECOVER, TIMED_OUT };

/* What is new about losses. While the connection recovers, the window does not grow. */
INLINE enum news news_of_losses(struct round *round, struct window *window, struct tcp_sock *tp)
{
	u32 recovery_end = window->recovery_end;
	bool may_grow = window_after_losses(window, tp, HALF_1024THS); /* the caller sets the window */

	if (round->timed_out) {
		round->timed_out = 0;
		window->timed_out = 1;
		round_begin(round, tp);
		round->lost = 1;
		return TIMED_OUT;
	}
	if (window->recovery_end != recovery_end) {
		round->lost = 1;
		return BEGINS_TO_RECOVER;
	}
	return may_grow ? NO_NEWS : RECOVERS;
}

#endif
