/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The congestion window that the programs of this folder maintain, with Reno's growth and reactions.
 *
 * They decide in cong_control, at every ACK, and not in the callbacks with a result (ssthresh, undo_cwnd): of
 * some thousand calls of these, one came back to the kernel with a number that the program had not returned
 * (seen on 6.18), and a threshold of two billion makes the kernel's own window reduction send a whole buffer at
 * once. Here the kernel may make the window smaller, after a time-out, but never larger.
 *
 * Losses are counted by tp->lost; there is one reduction per window of data (RFC 5681, RFC 6582).
 */
#ifndef SYSGYM_WINDOW_H
#define SYSGYM_WINDOW_H

#include "kernel.h"

#define MIN_CWND 2
#define HALF_1024THS 512

struct window {
	u32 cwnd;
	u32 ssthresh;
	u32 lost; /* tp->lost at the last ACK */
	u32 marked; /* tp->delivered_ce at the last ACK */
	u32 recovery_end; /* losses of data before this have had their reduction */
	u32 marks_end; /* and so have marks of data before this */
	u32 timed_out; /* in recovery the window grows from one packet */
};

INLINE void window_init(struct window *window, struct tcp_sock *tp)
{
	window->cwnd = tp->snd_cwnd;
	window->ssthresh = tp->snd_ssthresh;
	window->lost = tp->lost;
	window->marked = tp->delivered_ce;
	window->recovery_end = tp->snd_una;
	window->marks_end = tp->snd_una;
	window->timed_out = 0;
}

INLINE void window_set(struct window *window, struct tcp_sock *tp, u32 cwnd)
{
	window->cwnd = cwnd;
	tp->snd_cwnd = cwnd;
}

INLINE void window_reduce(struct window *window, struct tcp_sock *tp, u32 cwnd)
{
	window->ssthresh = larger(cwnd, MIN_CWND);
	tp->snd_ssthresh = window->ssthresh;
	window_set(window, tp, window->ssthresh);
}

/* React to losses: reduce the window to the given share of itself. Return whether it may grow. */
INLINE bool window_after_losses(struct window *window, struct tcp_sock *tp, u32 share_1024ths)
{
	bool cut = tp->snd_cwnd < window->cwnd; /* by the kernel, as after a time-out */
	bool recovering = behind(tp->snd_una, window->recovery_end);

	if (tp->lost != window->lost && !recovering) {
		window->ssthresh = larger((u64)window->cwnd * share_1024ths / 1024, MIN_CWND);
		window->recovery_end = tp->snd_nxt;
		recovering = true;
		if (!cut)
			window->cwnd = window->ssthresh;
	}
	window->lost = tp->lost;
	if (cut) {
		window->cwnd = tp->snd_cwnd;
		window->timed_out = 1;
	}
	if (!recovering)
		window->timed_out = 0;
	tp->snd_cwnd = window->cwnd;
	tp->snd_ssthresh = window->ssthresh;
	return !recovering || window->timed_out;
}

/* Whether this ACK reports new marks. */
INLINE bool window_marked(struct window *window, struct tcp_sock *tp)
{
	bool marked = tp->delivered_ce != window->marked;

	window->marked = tp->delivered_ce;
	return marked;
}

/* Whether marks require a reduction now: once per window of data. */
INLINE bool window_due(struct window *window, struct tcp_sock *tp)
{
	if (behind(tp->snd_una, window->marks_end))
		return false;
	window->marks_end = tp->snd_nxt;
	return true;
}

/* Slow start and congestion avoidance, if the window limits the sender. */
INLINE void window_grow(struct window *window, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
	window->cwnd = ((struct tcp_sock *)sk)->snd_cwnd;
}

/*
 * The rate that the kernel itself would set: twice the window per round trip in slow start, 1.2 times after. It
 * paces only if the socket asks for pacing; it bounds the data in the host's own queue.
 */
INLINE void window_pace(struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 rate = ~0ul;

	if (tp->srtt_us) {
		rate = (u64)tp->snd_cwnd * tp->mss_cache * 8000000 / tp->srtt_us;
		rate = tp->snd_cwnd < tp->snd_ssthresh / 2 ? rate * 2 : rate + rate / 5;
	}
	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

/* A rate in payload bytes per second; 0 for none beyond the socket's own limit. */
INLINE void window_pace_at(struct sock *sk, u64 rate)
{
	if (rate && rate < sk->sk_max_pacing_rate) {
		sk->sk_pacing_rate = rate;
		if (sk->sk_pacing_status == PACING_NONE)
			sk->sk_pacing_status = PACING_NEEDED;
	} else {
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	}
}

#if KERNEL >= 6010
#define CONG_CONTROL(name)                                                                         \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(name##_cong_control, struct sock *sk, u32 ack, int flag,                     \
		      const struct rate_sample *sample)                                            \
	{                                                                                          \
		name##_on_ack(sk, ack, sample);                                                    \
	}
#else
#define CONG_CONTROL(name)                                                                         \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(name##_cong_control, struct sock *sk, const struct rate_sample *sample)      \
	{                                                                                          \
		name##_on_ack(sk, ((struct tcp_sock *)sk)->snd_una, sample);                       \
	}
#endif

/* The kernel requires these callbacks, and their results have no effect. */
#define RESULTS(name)                                                                              \
	SEC("struct_ops")                                                                          \
	u32 BPF_PROG(name##_ssthresh, struct sock *sk)                                             \
	{                                                                                          \
		return larger(((struct tcp_sock *)sk)->snd_cwnd, MIN_CWND);                        \
	}                                                                                          \
	SEC("struct_ops")                                                                          \
	u32 BPF_PROG(name##_undo_cwnd, struct sock *sk)                                            \
	{                                                                                          \
		return ((struct tcp_sock *)sk)->snd_cwnd;                                          \
	}

#endif
