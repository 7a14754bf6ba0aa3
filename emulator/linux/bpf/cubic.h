/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * CUBIC, written from RFC 9438, as in the simulator: without HyStart and without a reaction to marks.
 *
 * Windows are fixed-point numbers, as whole packets would lose growth between two ACKs. Times are milliseconds.
 */
#ifndef SYSGYM_CUBIC_H
#define SYSGYM_CUBIC_H

#include "decisions/cube_root.h"
#include "window.h"

#define CUBIC_BETA_1024THS 717 /* 0.7 (4.6) */
#define CUBIC_ALPHA_1024THS 542 /* 3 (1 - beta) / (1 + beta) (4.3) */
#define CUBIC_CONVERGENCE_1024THS 870 /* (1 + beta) / 2 (4.7) */
#define CUBIC_FARTHEST_MS 100000
#define PACKET_SHIFT 20 /* windows are in 2^-20 packets */

struct cubic {
	u64 cwnd; /* the window with its fraction, unless another party has changed the window since */
	u64 w_est;
	u32 w_max; /* in 2^-10 packets, to save space */
	u32 prior; /* likewise: cwnd_prior */
	u32 k_ms;
	u32 epoch_ms;
	u32 last_ack_ms;
	u32 in_epoch;
};

INLINE void cubic_init(struct cubic *cubic)
{
	__builtin_memset(cubic, 0, sizeof(*cubic));
}

INLINE u64 cubic_window(struct cubic *cubic, struct window *window)
{
	if (cubic->cwnd >> PACKET_SHIFT != window->cwnd)
		cubic->cwnd = (u64)window->cwnd << PACKET_SHIFT;
	return cubic->cwnd;
}

/* W_cubic (figure 1): C (t - K)^3 + W_max with C = 0.4; t^3 ms^3 are t^3 / 2384.186 of our units. */
INLINE u64 w_cubic(struct cubic *cubic, u32 elapsed_ms)
{
	u64 w_max = (u64)cubic->w_max << 10;
	bool before = elapsed_ms < cubic->k_ms;
	u64 distance = before ? cubic->k_ms - elapsed_ms : elapsed_ms - cubic->k_ms;
	u64 change;

	if (distance > CUBIC_FARTHEST_MS)
		distance = CUBIC_FARTHEST_MS;
	change = distance * distance * distance * 1000 / 2384186;
	if (!before)
		return w_max + change;
	return change < w_max ? w_max - change : 0;
}

/* The curve begins at the present window (4.2): K is the cube root of (W_max - cwnd) / C. */
INLINE void cubic_begin_epoch(struct cubic *cubic, u32 now_ms)
{
	u32 cwnd = cubic->cwnd >> 10;

	cubic->in_epoch = 1;
	cubic->epoch_ms = now_ms;
	cubic->w_est = cubic->cwnd;
	cubic->w_max = larger(cubic->w_max, cwnd);
	cubic->k_ms = cube_root((u64)(cubic->w_max - cwnd) * 2441406);
}

/* Fast convergence and the end of the epoch (4.6 and 4.7). */
INLINE void cubic_remember_congestion(struct cubic *cubic, u64 cwnd)
{
	cubic->prior = cwnd >> 10;
	cubic->w_max = cubic->prior < cubic->w_max ? (u64)cubic->prior * CUBIC_CONVERGENCE_1024THS / 1024
						   : cubic->prior;
	cubic->in_epoch = 0;
}

/* The larger of the cubic curve and Reno's estimate (4.3 to 4.5). */
INLINE void cubic_grow(struct cubic *cubic, struct tcp_sock *tp, u32 acked, u32 now_ms)
{
	u32 elapsed_ms = now_ms - cubic->epoch_ms;
	u64 cwnd = cubic->cwnd;
	u64 alpha = cubic->w_est >> 10 < cubic->prior ? CUBIC_ALPHA_1024THS : 1024;
	u64 target;

	cubic->w_est += (alpha * acked << 30) / cwnd;
	if (w_cubic(cubic, elapsed_ms) < cubic->w_est) {
		if (cwnd < cubic->w_est)
			cubic->cwnd = cubic->w_est;
		return;
	}
	target = w_cubic(cubic, elapsed_ms + (tp->srtt_us >> 3) / 1000);
	if (target > cwnd + cwnd / 2)
		target = cwnd + cwnd / 2;
	if (target > cwnd)
		cubic->cwnd += acked * (target - cwnd) / (cwnd >> PACKET_SHIFT);
}

/* Apply losses and growth to the window. */
INLINE void cubic_on_ack(struct cubic *cubic, struct window *window, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 now_ms = bpf_ktime_get_ns() / 1000000;
	u32 since_ms = now_ms - cubic->last_ack_ms;
	u32 recovery_end = window->recovery_end;
	u32 timed_out = window->timed_out;
	u64 cwnd = cubic_window(cubic, window);
	bool may_grow = window_after_losses(window, tp, CUBIC_BETA_1024THS);

	cubic->last_ack_ms = now_ms;
	if (window->recovery_end != recovery_end)
		cubic_remember_congestion(cubic, cwnd);
	if (window->timed_out && !timed_out) {
		cubic->w_max = 0; /* the next curve begins on its plateau (4.8) */
		cubic->in_epoch = 0;
	}
	if (!may_grow || acked == 0)
		return;
	if (window->cwnd < window->ssthresh) {
		window_grow(window, sk, ack, acked);
		return;
	}
	if (!BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited)) {
		cubic->epoch_ms += since_ms; /* time in which the window is not needed does not count (5.8) */
		return;
	}
	cubic_window(cubic, window);
	if (!cubic->in_epoch)
		cubic_begin_epoch(cubic, now_ms);
	cubic_grow(cubic, tp, acked, now_ms);
	window_set(window, tp, cubic->cwnd >> PACKET_SHIFT);
}

#endif
