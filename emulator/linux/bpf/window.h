/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The congestion window that the programs of this folder maintain, with Reno's growth and reactions.
 *
 * They decide in cong_control, at every ACK, and not in the callbacks with a result (ssthresh, undo_cwnd): of
 * some thousand calls of these, one came back to the kernel with a number that the program had not returned
 * (seen on 6.18), and a threshold of two billion makes the kernel's own window reduction send a whole buffer at
 * once. Here the kernel may make the window smaller, after a time-out, but never larger.
 *
 * Losses are counted by tp->lost; there is one reduction per window of data (RFC 5681, RFC 6582). It is spread
 * over the recovery in proportion to what is delivered (RFC 9937): the kernel leaves that, too, to a program with
 * cong_control.
 */
#ifndef SYSGYM_WINDOW_H
#define SYSGYM_WINDOW_H

#include "kernel.h"

#define MIN_CWND 2
#define HALF_1024THS 512

struct window {
	u32 cwnd;
	u32 ssthresh;
	u32 kernel_cwnd; /* tp->snd_cwnd after the last ACK: cwnd, or less during a recovery */
	u32 lost; /* tp->lost at the last ACK */
	u32 acknowledged; /* tp->snd_una at the last ACK */
	u32 marked; /* tp->delivered_ce at the last ACK */
	u32 recovery_end; /* losses of data before this have had their reduction */
	u32 marks_end; /* and so have marks of data before this */
	u16 window_before; /* cwnd before the recovery, Linux's prior_cwnd; RFC 9937 has the packets in flight */
	u16 recovery_delivered; /* packets delivered since (prr_delivered) */
	u16 sent_before; /* tp->prr_out when the recovery began */
	u8 timed_out; /* in recovery the window grows from one packet */
	u8 safe; /* the last ACK moved tp->snd_una and reported no loss (SafeACK) */
};

INLINE void window_init(struct window *window, struct tcp_sock *tp)
{
	window->cwnd = tp->snd_cwnd;
	window->kernel_cwnd = tp->snd_cwnd;
	window->ssthresh = tp->snd_ssthresh;
	window->lost = tp->lost;
	window->acknowledged = tp->snd_una;
	window->marked = tp->delivered_ce;
	window->recovery_end = tp->snd_una;
	window->marks_end = tp->snd_una;
	window->window_before = 1;
	window->recovery_delivered = 0;
	window->sent_before = 0;
	window->timed_out = 0;
	window->safe = 0;
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
	bool cut = tp->snd_cwnd < window->kernel_cwnd; /* by the kernel, as after a time-out */
	bool recovering = behind(tp->snd_una, window->recovery_end);

	window->safe = tp->lost == window->lost && behind(window->acknowledged, tp->snd_una);
	window->acknowledged = tp->snd_una;
	if (tp->lost != window->lost && !recovering) {
		window->ssthresh = larger((u64)window->cwnd * share_1024ths / 1024, MIN_CWND);
		window->recovery_end = tp->snd_nxt;
		window->window_before = smaller(larger(window->cwnd, 1), 0xffff);
		window->recovery_delivered = 0;
		window->sent_before = tp->prr_out;
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

/* Proportional rate reduction (RFC 9937, 6.2, as Linux has it): how many packets may leave before the next ACK. */
INLINE u32 window_credit(struct window *window, struct tcp_sock *tp, u32 in_flight, u32 delivered)
{
	u32 sent = (u16)(tp->prr_out - window->sent_before);
	s32 credit;

	if (in_flight > window->cwnd) {
		u32 share = window->recovery_delivered * window->cwnd + window->window_before - 1;

		credit = share / window->window_before - sent;
	} else {
		s32 behind_by = window->recovery_delivered - sent;

		credit = (behind_by > (s32)delivered ? behind_by : (s32)delivered) + window->safe;
		if (credit > (s32)(window->cwnd - in_flight))
			credit = window->cwnd - in_flight;
	}
	if (credit < 0)
		credit = 0;
	return sent || credit ? credit : 1; /* the fast retransmission */
}

INLINE u32 window_in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

/* A recovery begins with one packet, also if RACK's timer begins it: the kernel then sends before the next ACK. */
INLINE void window_set_state(struct window *window, struct tcp_sock *tp, u8 new_state)
{
	u32 first = window_in_flight(tp) + 1;

	if (new_state != TCP_CA_Recovery || first >= tp->snd_cwnd)
		return;
	tp->snd_cwnd = first;
	window->kernel_cwnd = first;
}

/* The last thing to do at an ACK: in a recovery the kernel's window is what is in flight and what may leave. */
INLINE void window_finish(struct window *window, struct sock *sk, u32 delivered)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u32 in_flight = window_in_flight(tp);

	window->kernel_cwnd = tp->snd_cwnd;
	if (!behind(tp->snd_una, window->recovery_end) ||
	    BPF_CORE_READ_BITFIELD(connection, icsk_ca_state) != TCP_CA_Recovery)
		return;
	window->recovery_delivered += delivered;
	tp->snd_cwnd = larger(in_flight + window_credit(window, tp, in_flight, delivered), 1);
	window->kernel_cwnd = tp->snd_cwnd;
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

/*
 * The ACK of the handshake comes before the program's init: with its state still empty it would pace at a rate
 * of 0, and the first window would leave two packets at a time.
 */
INLINE bool window_begun(struct sock *sk)
{
	struct inet_connection_sock *connection = (struct inet_connection_sock *)sk;

	return BPF_CORE_READ_BITFIELD(connection, icsk_ca_initialized);
}

#if KERNEL >= 6010
#define CONG_CONTROL(name)                                                                         \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(name##_cong_control, struct sock *sk, u32 ack, int flag,                     \
		      const struct rate_sample *sample)                                            \
	{                                                                                          \
		if (window_begun(sk))                                                              \
			name##_on_ack(sk, ack, sample);                                            \
	}
#else
#define CONG_CONTROL(name)                                                                         \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(name##_cong_control, struct sock *sk, const struct rate_sample *sample)      \
	{                                                                                          \
		if (window_begun(sk))                                                              \
			name##_on_ack(sk, ((struct tcp_sock *)sk)->snd_una, sample);               \
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
